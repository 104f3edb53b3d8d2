package pool

import "github.com/axle-llm/axle/axcl"

// Card is an open card.
type Card struct {
	axcl.Info
	Err error // why it takes no more work, or nil
}

// Carded is a [Loader] that tells of its open cards, without waiting for anything. Health says
// their temperatures though no model is loaded.
type Carded interface {
	Cards() []Card
}

// Failing is a [Loader] that tells why the device it is for could not be opened, without waiting
// for anything; nil where it is open, or was not tried yet. A server whose device is not there can
// load nothing, and health says so.
type Failing interface {
	Failed() error
}

// Failed is why no model can be loaded at all, or nil.
func (ms *Models) Failed() error {
	if f, ok := ms.loader.(Failing); ok {
		return f.Failed()
	}
	return nil
}

// Opening is a [Loader] that tells whether the device it is for is still being opened for the first
// time, without waiting for anything.
type Opening interface {
	Opening() bool
}

// Opening: no attempt to open the device has ended yet, so whether anything can be loaded is not
// known.
func (ms *Models) Opening() bool {
	o, ok := ms.loader.(Opening)
	return ok && o.Opening()
}

// Cards are the open cards; nil where the loader does not tell.
func (ms *Models) Cards() []Card {
	if c, ok := ms.loader.(Carded); ok {
		return c.Cards()
	}
	return nil
}
