package ask

// FaceRequest asks for the faces in a picture.
type FaceRequest struct {
	Picture []byte  // a file: jpeg, png, gif, webp or bmp
	Least   float64 // the score that a face must have to be told of, 0 to 1
	Key     string  // keys take turns, a picture each
}

// Face is a face in a picture. Its corners and points are in pixels of the picture, from its left
// and its top, as the picture is seen: upright.
type Face struct {
	Score          float64 // 0 to 1
	X0, Y0, X1, Y1 float64
	Points         [5][2]float64 // x and y of the eyes, the nose and the corners of the mouth, the left ones of the picture first
	Vector         []float32     // of a person's faces the cosine is high; it is not normalised
}
