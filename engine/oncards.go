package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/models"
)

// deviceNames splits a list of devices. An empty name, which means the best device, is allowed only
// in a list of one: otherwise the same card would be opened twice.
func deviceNames(list, sep string) ([]string, error) {
	names := strings.Split(list, sep)
	if len(names) > 1 && slices.Contains(names, "") {
		return nil, fmt.Errorf("%w: the device %q has an empty place beside %q", ErrRequest, list, sep)
	}
	return names, nil
}

// openCards opens the card that o.Device names, or several joined as one.
func openCards(o OpenOptions) (card *Card, under []*Card, err error) {
	names, err := deviceNames(o.Device, "+")
	if err != nil {
		return nil, nil, err
	}
	if len(names) == 1 {
		card, err = OpenCard(func() (axcl.Device, string, error) { return cards.Open(o.Device) }, o.CardOptions)
		return card, nil, err
	}
	for _, name := range names {
		c, err := OpenCard(func() (axcl.Device, string, error) { return cards.Open(name) }, CardOptions{Watch: o.CardOptions.Watch})
		if err != nil {
			closeCards(under)
			return nil, nil, err
		}
		under = append(under, c)
	}
	card, err = OpenCard(func() (axcl.Device, string, error) {
		d, err := Join(under...)
		return d, "several cards were asked for", err
	}, o.CardOptions)
	if err != nil {
		closeCards(under)
		return nil, nil, err
	}
	return card, under, nil
}

func closeCards(cs []*Card) {
	for _, c := range cs {
		_ = c.Close()
	}
}

// Cards are the open cards that a device's name stands for. Close them after the models that use
// them.
type Cards struct {
	Copies []*Card // for OpenOptions.Copies: each holds a copy of a model; one card if the name has no comma
	under  []*Card // the cards that joined ones consist of
}

// OpenCards opens all cards that OpenOptions.Device names, for several models. Errors: OpenCard's,
// ErrRequest for an empty name in a list.
func OpenCards(device string, o CardOptions) (*Cards, error) {
	names, err := deviceNames(device, ",")
	if err != nil {
		return nil, err
	}
	all := &Cards{}
	var left atomic.Int64
	left.Store(int64(len(names)))
	for _, name := range names {
		one := o
		one.Lost = func(err error) {
			told := o.Fewer
			if left.Add(-1) == 0 {
				told = o.Lost
			}
			if told != nil {
				told(err)
			}
		}
		card, under, err := openCards(OpenOptions{Device: name, CardOptions: one})
		if err != nil {
			if errors.Is(err, axcl.ErrLost) {
				go all.Close() // it may wait for a library that does not answer
			} else {
				_ = all.Close()
			}
			return nil, err
		}
		all.Copies, all.under = append(all.Copies, card), append(all.under, under...)
	}
	return all, nil
}

// Close closes every card. A second Close returns ErrClosed.
func (c *Cards) Close() error {
	var errs []error
	for _, card := range slices.Concat(c.Copies, c.under) {
		errs = append(errs, card.Close())
	}
	return errors.Join(errs...)
}

// opener loads a model onto a card. closer is called after the model has left the card.
type opener func(c *Card, closer func() error) (*Model, error)

// openOn opens a model on the card that o names, or copies of it on several cards. If that fails,
// it closes the cards that it opened. The model closes p. choose picks one of o.Cards. one opens
// the model, or its first copy, and again opens each further copy.
func openOn(p io.Closer, o OpenOptions, choose func([]*Card) *Card, one, again opener) (*Model, error) {
	switch {
	case o.Card != nil:
		return one(o.Card, p.Close)
	case len(o.Cards) > 0:
		return one(choose(o.Cards), p.Close)
	case len(o.Copies) > 0:
		return openReplicas(o.Copies, p.Close, one, again)
	case strings.Contains(o.Device, ","):
		all, err := OpenCards(o.Device, o.CardOptions)
		if err != nil {
			return nil, err
		}
		m, err := openReplicas(all.Copies, func() error { return errors.Join(all.Close(), p.Close()) }, one, again)
		if err != nil {
			_ = all.Close()
		}
		return m, err
	}
	c, under, err := openCards(o)
	if err != nil {
		return nil, err
	}
	own := func() error {
		err := c.Close()
		closeCards(under)
		return err
	}
	m, err := one(c, func() error { return errors.Join(own(), p.Close()) })
	if err != nil {
		_ = own()
	}
	return m, err
}

// openReplicas loads a copy of a model onto each card that works. closed is called after the last
// copy is closed.
func openReplicas(cards []*Card, closed func() error, one, again opener) (*Model, error) {
	live := slices.DeleteFunc(slices.Clone(cards), func(c *Card) bool { return c.Err() != nil })
	if len(live) == 0 {
		return nil, cards[0].Err()
	}
	var bs []Backend
	var first *Model
	open := one
	for i, card := range live {
		m, err := open(card, func() error { return nil })
		if errors.Is(err, axcl.ErrLost) && (first != nil || i < len(live)-1) {
			continue // the others go on
		}
		if err != nil {
			for _, b := range bs {
				_ = b.Close()
			}
			return nil, err
		}
		bs = append(bs, m.b)
		if first == nil {
			first, open = m, again
		}
	}
	all := Replicate(bs...).(*replicas)
	all.closed = closed
	return New(all, first.o), nil
}

// openCopy opens the package p once more, for another copy.
func openCopy(ctx context.Context, p *models.Package, c *Card, o OpenOptions) (*Model, error) {
	o.Card = c
	if p.Dir != "" {
		return Open(ctx, p.Dir, o)
	}
	again, err := models.OpenFS(p.FS(), ".") // a package of the store
	if err != nil {
		return nil, err
	}
	again.Name = p.Name
	m, err := OpenPackage(ctx, again, o)
	if err != nil {
		_ = again.Close()
	}
	return m, err
}
