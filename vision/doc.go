// Package vision turns a picture's bytes into what a model's image encoder reads: it recognises and
// decodes png, jpeg, gif (the first frame), webp and bmp, turns them upright, makes them 8 bits of
// red, green and blue, resizes them and writes them in the encoder's layout. It knows no card, no
// package and no HTTP, fetches nothing and opens no file.
//
// [Look] reads a header, [Decode] the pixels, [Picture.Resize] makes it the encoder's size,
// [ReadLayout] tells from a tensor's shape and type how the encoder wants it, and [Layout.Write]
// writes it so; [Picture.Tiles] is for families that look at parts. All functions may be called
// from any goroutine; a [Picture] is safe for readers as long as its pixels are not written.
// Nothing holds a resource, so nothing is closed.
//
// # Limits
//
// A picture's bytes, sides and pixels, and the memory that decoding will take, are checked against
// [Limits] before a pixel is allocated. A file that is too small to hold what its header claims is
// refused too.
//
// # What equals what
//
// "Pillow" is Pillow 9.4 with libjpeg-turbo 2.1 on amd64; vision/testdata/make.py made the pictures
// and pixels that the tests compare with.
//
//   - [Picture.Resize] equals Image.resize(size, Image.BICUBIC) of an RGB picture, byte for byte.
//   - png, gif, bmp and webp (lossy and lossless) equal Pillow's pixels, byte for byte, laid on white as Image.paste(picture, mask=alpha)
//     does. Four cases differ, since Pillow's answer is of no use: grey of 16 bits keeps its high byte, as colour of 16 bits does (Pillow
//     clips it to white); a transparent level of a png of 16 bits is compared in full; where a gif's first frame leaves its canvas open
//     there is white, not colour 0; and alpha in a bmp counts only where the header is BITMAPV4 or later.
//   - jpeg differs from libjpeg-turbo by at most 3 levels: chroma is upsampled and converted with its arithmetic, while the inverse cosine
//     transform is image/jpeg's. CMYK and YCCK become RGB as Pillow's convert("RGB") does. Colour profiles are left alone, as Pillow leaves
//     them.
//   - The orientation of EXIF (jpeg, webp, the eXIf chunk of png) is applied as ImageOps.exif_transpose does.
//
// What is not read is refused by name: animated webp, heic and avif, jpeg of 12 bits or arithmetic
// coding, compressed bmp.
package vision
