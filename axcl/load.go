package axcl

import "context"

// Loader puts a language model on a card, a file at a time. Between two calls the card may do other
// work: passes of other models, nets' calls, not another load where memory is short. It is called
// as a Device is.
type Loader interface {
	// Order is in which order the files go, numbered as in LoadSpec.Progress. The slice is the
	// Loader's.
	Order() []int
	// Next puts the next file on the card; after the last one it makes room for what the model
	// keeps, and looks what the card can do: then it is done, and so is the Loader. It looks at ctx
	// first. After an error all that the Loader put on the card is released again, and other models
	// are untouched. Errors: as Device.Loader's, ErrMemory, ErrTimeout, ErrTooOld, ctx's error;
	// ErrClosed after the last, after an error and after Close.
	Next(ctx context.Context) (done bool, err error)
	// Model is the model once Next said that it was done, nil before. It is the caller's to close.
	Model() Model
	// Close releases what is there of a model that is not done. Otherwise it does nothing and
	// returns ErrClosed.
	Close() error
}

// Load puts a language model on a card, all of its files in one go, and tells spec.Order and
// spec.Progress. Errors: Loader.Next's.
func Load(ctx context.Context, d Device, spec LoadSpec) (Model, error) {
	l, err := d.Loader(spec)
	if err != nil {
		return nil, err
	}
	order := l.Order()
	if spec.Order != nil {
		spec.Order(order)
	}
	for n := 0; ; n++ {
		done, err := l.Next(ctx)
		switch {
		case err != nil:
			return nil, err
		case done:
			return l.Model(), nil
		case n < len(order) && spec.Progress != nil:
			spec.Progress(order[n], n+1, len(order))
		}
	}
}
