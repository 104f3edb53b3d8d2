package hub

import (
	"errors"
	"path"
	"strings"

	"github.com/axle-llm/axle/models"
)

// dictionariesAt is the folder of misaki's dictionaries (Apache-2.0), at one commit.
const dictionariesAt = "https://raw.githubusercontent.com/hexgrad/misaki/fba1236595f2d2bf21d414ba6e57d25256afada3/misaki/data"

// AnotherAddress is the way out where a dictionary's address does not serve it.
const AnotherAddress = "set AXLE_DICTIONARIES to the address of another folder with the dictionaries"

// Dictionaries are the files that say how English words sound, which packages that speak English
// need and do not have. folder is the address that serves them; empty: their project's own. They
// are the same files from wherever they come, by their hashes.
func Dictionaries(folder string) []File {
	if folder == "" {
		folder = dictionariesAt
	}
	all := []File{{Path: "us_gold.json", Size: 3_000_469}, {Path: "us_silver.json", Size: 3_099_517},
		{Path: "gb_gold.json", Size: 2_838_552}, {Path: "gb_silver.json", Size: 3_663_898}}
	for i, sum := range []string{"dc414872a49a28ae6c141463d502fd945f3b2fde040484fdc47d00cc4612686f",
		"de8f67be911bb6c659187b4a65fd966b6a30e56350e0f790d763210b053ac475",
		"29e62f4b60261c88f7f3c2c7811ca3825978948090b72d2b27d565b729282f71",
		"48131e2d92ccc41655f4543e87e0f938e71463eb5a54be7f0693bb712ebb6bce"} {
		f := &all[i]
		f.URL = strings.TrimRight(folder, "/") + "/" + f.Path
		f.Path = path.Join("dictionaries", f.Path)
		f.Digest, _ = models.ParseDigest("sha256:" + sum)
	}
	return all
}

// wayOut gives an error of a file that is not the hub's own the way out that helps.
func (f File) wayOut(err error) error {
	if e := (*Error)(nil); f.URL != "" && errors.As(err, &e) {
		e.Fix = AnotherAddress
	}
	return err
}
