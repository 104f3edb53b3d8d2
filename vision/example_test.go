package vision_test

import (
	"fmt"
	"os"

	"github.com/axle-llm/axle/vision"
)

// A file becomes the input of an encoder whose tensor is u8 [1, 576, 512, 3] and whose output has 144 rows.
func Example() {
	data, err := os.ReadFile("testdata/pictures/turned6.jpg")
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := vision.Decode(data, vision.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := vision.ReadLayout([]int{1, 576, 512, 3}, vision.U8, vision.Hints{Rows: 144})
	if err != nil {
		fmt.Println(err)
		return
	}
	input, err := l.Append(nil, p, vision.Own)
	fmt.Printf("%d×%d pixels become %d×%d, as %v: %d bytes, %v\n", p.Width, p.Height, l.Width, l.Height, l.Kind, len(input), err)

	_, err = vision.ReadLayout([]int{1, 512, 512, 3}, vision.U8, vision.Hints{})
	fmt.Println(err)
	// Output:
	// 31×45 pixels become 384×384, as patches in blocks of four: 884736 bytes, <nil>
	// vision: an encoder with an input of [1 512 512 3] u8: that is a picture of 512×512 as well as 512 patches of 16×16; the rows of its output would tell, and are not known
}
