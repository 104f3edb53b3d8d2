package prompt

import (
	"bytes"
	"encoding/binary"
	"image"
	_ "image/gif" // the formats whose sizes we can tell
	_ "image/jpeg"
	_ "image/png"

	"github.com/axle-llm/axle/server/body"
)

// Limits of pictures (promise T7). A conversation may be about any number of them: the engine lets
// the oldest turns go, before it reads them, where there are more than the context holds.
const (
	maxImages = 8          // in one message
	maxPixels = 40_000_000 // vision's
)

// checkImages checks a request's images before anything decodes them; most is how many of them one
// message brings.
func checkImages(list [][]byte, most int) error {
	//rule:T7 ./server TestLimits false
	if most > maxImages {
		return body.Fail(400, "too many images in a message: %d, the limit is %d", most, maxImages)
	}
	for i, img := range list {
		w, h := imageSize(img)
		//rule:T7 ./server TestLimits false
		if int64(w)*int64(h) > maxPixels {
			return body.Fail(400, "picture %d has %d×%d pixels, the limit is %d megapixels", i+1, w, h, maxPixels/1_000_000)
		}
	}
	return nil
}

// imageSize reads the size that an image's header states; 0 for what is no image that we know.
func imageSize(b []byte) (w, h int) {
	if len(b) >= 30 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP" {
		switch string(b[12:16]) {
		case "VP8 ":
			return int(binary.LittleEndian.Uint16(b[26:]) & 0x3fff), int(binary.LittleEndian.Uint16(b[28:]) & 0x3fff)
		case "VP8L":
			v := binary.LittleEndian.Uint32(b[21:])
			return int(v&0x3fff) + 1, int(v>>14&0x3fff) + 1
		case "VP8X":
			return int(b[24]) | int(b[25])<<8 | int(b[26])<<16 + 1, int(b[27]) | int(b[28])<<8 | int(b[29])<<16 + 1
		}
		return 0, 0
	}
	cfg, _, err := image.DecodeConfig(bytes.NewReader(b))
	if err != nil {
		return 0, 0
	}
	return cfg.Width, cfg.Height
}
