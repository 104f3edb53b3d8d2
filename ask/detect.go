package ask

// DetectRequest asks what is in a picture.
type DetectRequest struct {
	Picture []byte  // a file: jpeg, png, gif, webp or bmp
	Least   float64 // the confidence that a thing must have to be told of, 0 to 1
	Key     string  // keys take turns, a picture each
}

// Detection is a thing in a picture. Its corners are in pixels of the picture, from its left and
// its top, as the picture is seen: upright.
type Detection struct {
	Label          string
	Confidence     float64 // 0 to 1
	X0, Y0, X1, Y1 float64
}
