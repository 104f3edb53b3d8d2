package main

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"

	"github.com/axle-llm/axle/cmd/internal/client"
	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/vision"
)

func init() { register(newDetectCmd) }

const maxDetected = 32 << 20 // bytes of a picture, as the server takes it

func newDetectCmd() *cobra.Command {
	var p client.Picture
	var out string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "detect PICTURE",
		Short: "Find things in a picture",
		Long: `Detect lists what is in a picture: a label, how sure the detector is, and the
corners of a box in pixels from the left and the top. The picture is jpeg, png,
gif, webp or bmp; with - it is read from standard input. With -o the picture is
written to a file, with the boxes drawn. Without --model the server takes its
detector of choice.`,
		Example: `  axle detect garden.jpg
  axle detect --least 0.6 -o found.png garden.jpg
  axle detect --json - <garden.jpg`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if !(p.Least >= 0 && p.Least <= 1) {
				return usageError("--least must be between 0 and 1, got %v", p.Least)
			}
			encode, err := pictureFormat(out)
			if err != nil {
				return err
			}
			if p.Name, p.File, err = readPicture(c.InOrStdin(), args[0]); err != nil {
				return err
			}
			return with(c.Context(), false, func(conn *connection) error {
				found, err := conn.Detect(c.Context(), p)
				if err != nil {
					return fmt.Errorf("%s: %w", args[0], client.Error(err))
				}
				if out != "" {
					if err := toFile(c, out, "a picture", func(w io.Writer, _ io.WriterAt) error {
						return writeBoxes(w, p.File, found, encode)
					}); err != nil {
						return err
					}
				}
				switch {
				case out == "-":
					return nil // the picture is the answer
				case asJSON:
					if found == nil {
						found = []client.Found{}
					}
					return printJSON(c.OutOrStdout(), found)
				case len(found) == 0:
					fmt.Fprintf(c.OutOrStdout(), "nothing is in it that the detector knows and is at least %v sure of\n", p.Least)
					return nil
				}
				rows := [][]string{{"LABEL", "CONFIDENCE", "BOX"}}
				for _, f := range found {
					rows = append(rows, []string{f.Label, fmt.Sprintf("%.2f", f.Confidence),
						fmt.Sprintf("%d,%d to %d,%d", f.XMin, f.YMin, f.XMax, f.YMax)})
				}
				return terminal.Rows(c.OutOrStdout(), "", rows)
			})
		},
	}
	f := cmd.Flags()
	f.StringVarP(&p.Model, "model", "m", "", "the `model` that detects")
	f.Float64Var(&p.Least, "least", 0.4, "the `confidence` that a thing must have, 0 to 1")
	f.StringVarP(&out, "output", "o", "", "write the picture with the boxes to this `file`, png or jpg")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// pictureFormat is how a picture of that file name is written.
func pictureFormat(name string) (func(w io.Writer, m image.Image) error, error) {
	switch end := strings.ToLower(filepath.Ext(name)); end {
	case ".jpg", ".jpeg":
		return func(w io.Writer, m image.Image) error { return jpeg.Encode(w, m, &jpeg.Options{Quality: 92}) }, nil
	case "", ".", ".png":
		return png.Encode, nil
	default:
		return nil, usageError("-o %s: pictures are written as .png or .jpg, not %s", name, end)
	}
}

// readPicture reads a file, or with - standard input.
func readPicture(in io.Reader, name string) (base string, b []byte, err error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", nil, err
		}
		defer f.Close()
		in = f
	}
	if b, err = io.ReadAll(io.LimitReader(in, maxDetected+1)); err != nil {
		return "", nil, err
	}
	if len(b) > maxDetected {
		return "", nil, fmt.Errorf("%s: the picture has more than %d MiB", name, maxDetected>>20)
	}
	return filepath.Base(name), b, nil
}

// boxColours are those of boxes: a label keeps its colour.
var boxColours = []color.RGBA{{230, 25, 75, 255}, {0, 130, 200, 255}, {60, 180, 75, 255}, {245, 130, 48, 255}, {145, 30, 180, 255},
	{0, 128, 128, 255}, {170, 110, 40, 255}, {128, 0, 0, 255}}

// writeBoxes writes a picture with a box around each thing, and above it what it is.
func writeBoxes(w io.Writer, file []byte, found []client.Found, encode func(io.Writer, image.Image) error) error {
	p, err := vision.Decode(file, vision.Limits{})
	if err != nil {
		return errors.Join(errors.New("the picture cannot be read to draw on it"), err)
	}
	m := image.NewRGBA(image.Rect(0, 0, p.Width, p.Height))
	for i := range p.Width * p.Height {
		copy(m.Pix[4*i:], p.Pix[3*i:3*i+3])
		m.Pix[4*i+3] = 255
	}
	line := max(2, min(p.Width, p.Height)/240)
	for i := range found {
		f := found[len(found)-1-i] // the surest on top
		hash := 0
		for _, b := range []byte(f.Label) {
			hash = 31*hash + int(b)
		}
		c := image.NewUniform(boxColours[hash&(len(boxColours)-1)])
		box := image.Rect(f.XMin, f.YMin, f.XMax, f.YMax)
		for _, side := range []image.Rectangle{
			image.Rect(f.XMin, f.YMin, f.XMax, f.YMin+line), image.Rect(f.XMin, f.YMax-line, f.XMax, f.YMax),
			image.Rect(f.XMin, f.YMin, f.XMin+line, f.YMax), image.Rect(f.XMax-line, f.YMin, f.XMax, f.YMax),
		} {
			draw.Draw(m, side.Intersect(box), c, image.Point{}, draw.Src)
		}
		text, face := fmt.Sprintf("%s %.2f", f.Label, f.Confidence), basicfont.Face7x13
		top := max(0, box.Min.Y-face.Height)
		d := font.Drawer{Dst: m, Src: image.White, Face: face, Dot: fixed.P(box.Min.X+2, top+face.Ascent)}
		behind := image.Rect(box.Min.X, top, box.Min.X+d.MeasureString(text).Ceil()+4, top+face.Height)
		draw.Draw(m, behind, c, image.Point{}, draw.Src)
		d.DrawString(text)
	}
	return encode(w, m)
}
