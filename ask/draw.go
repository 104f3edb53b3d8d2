package ask

// DrawRequest asks for one picture.
type DrawRequest struct {
	Prompt   string
	Negative string  // what the picture is not to show; an error where Info.Draws.Guided is false
	Picture  []byte  // a file to start from: jpeg, png, gif, webp or bmp; nil: noise alone
	Strength float64 // how much of Picture may change, above 0 and up to 1; 0: the usual
	Steps    int     // 0: the usual
	Guidance float64 // how closely Prompt is followed; 0: the usual; an error where Info.Draws.Guided is false
	Width    int     // in pixels; 0: the model's own
	Height   int
	Seed     uint32
	Partial  int    // pictures on the way that are wanted
	Key      string // keys take turns, a picture each
}

// Drawing is an event of a picture that is being drawn. The last one is the picture that was asked
// for: Done.
type Drawing struct {
	Step, Steps   int // of those that were asked for, how many are done
	Done          bool
	Width, Height int    // of Pixels
	Pixels        []byte // red, green, blue, by rows from the top; nil where the step shows nothing
	Cuts          []Cut  // with the first event: of the prompts, those that were cut
}

// Draws is what a model that draws can do.
type Draws struct {
	Width, Height int     // of its pictures
	Steps         int     // the usual number of steps
	MostSteps     int     // and the most
	Choices       []int   // the numbers of steps that it can do; nil: every one up to MostSteps
	Guided        bool    // takes a negative prompt and a guidance
	Guidance      float64 // the usual one
	Pictures      bool    // can start from a picture
}
