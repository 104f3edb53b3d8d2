// Package engine answers requests with a language model on a card.
//
// [Open] puts a package (a folder of .axmodel files) on a card and gives a [Model]; [Model.Chat]
// and [Model.Generate] give an answer as a sequence of events, [Model.Embed] gives vectors:
//
//	m, err := engine.Open(ctx, "models/qwen3-0.6b", engine.OpenOptions{})
//	if err != nil {
//		return err
//	}
//	defer m.Close()
//	r := engine.Request{Messages: []chat.Message{{Role: "user", Content: "Why is the sky blue?"}}, Sampling: m.Sampling()}
//	for e, err := range m.Chat(ctx, r) {
//		if err != nil {
//			return err
//		}
//		fmt.Print(e.Text)
//	}
//
// Leaving the loop ends the answer; so does ctx. The last event has Done, with the reason, the
// usage and the times. [Model.Choices] gives several answers to one prompt, which is evaluated once
// (choices.go).
//
// # From which goroutine
//
// Models and cards may be used from any number of goroutines at once. Underneath, each card has one
// goroutine, the worker, which owns the device from open to close and holds its thread; a request
// is handed to it through a queue, and what it answers comes back through a mailbox, so the card
// never waits for a reader. The caller closes a Model; that ends its answers with [ErrClosed] and
// closes the package, and the card if Open opened it. A [Card] opened by [OpenCard] may hold
// several models and is closed after them.
//
// # What the worker does
//
// The worker (package card) gives each tenant of the card its turns, by seconds: every model that
// is loaded, and one that is being loaded, a file at a time. What follows is a model's turn; it
// ends after each piece, a pass or a copy of rows, so that the others have theirs.
//
// A model on a card has a fixed number of cache rows, called cells. A cell's number means nothing,
// because which cells a row sees is only a mask; so sequences that begin alike share the cells of
// their beginning, and what is finished stays as a cache until its cells are needed (package
// cache). A prompt has neighbouring cells reserved for all its rows: each run of them costs copies
// (reserve.go). Each pass is planned anew (plan.go): the sequence that waited longest leads, alone
// on the decode group or with all others in a wide pass, whichever brings more rows for the time,
// by costs measured at load and corrected after every pass (cost.go). Guesses of the next tokens,
// from the text so far or from a smaller model ([OpenOptions].Draft), ride along where they are
// measured to pay (speculate.go, draft.go); they are verified by drawing and comparing, so the text
// is the same without them.
//
// Sequences are let in so that together is never slower than one after another (admit.go): in the
// order they came; while all that run find cells for what they have still to say; a prompt while it
// finds cells that wide passes see. More is let in as a bet, where what it may cost, rows evaluated
// again or one by one, is less than what being together saves or than a small part of the work.
// Whatever comes, all have their answers after at most 1.05 times what one after another takes, and
// among equals who came first has its first token first. What a card cannot do leaves less to be
// won by being together, and nothing to be lost.
//
// Wide passes see the low cells only. Where a prompt lacks them, rows that need not lie low go up,
// those of answers and of what is not in use, and the rows of a text that goes on come down,
// between passes and in pieces, wherever the costs say that this is cheaper (relocate.go).
//
// What has to leave the card may be kept in this machine's memory ([OpenOptions].CacheRAM), and
// comes back in pieces between passes where that is cheaper than evaluating it (ramtier.go).
//
// Layers may keep a state instead of rows (Qwen3.5). Then a sequence has a slot, a pass carries
// rows of one sequence, turn about, and what a text may go on from is a snapshot: a slot that is
// left as it is, at the node of the tree where it was made (slots.go). Such models guess nothing. A
// snapshot goes to memory and to disk with the rows that it is after, and comes back with them or
// not at all (ramstates.go, diskstates.go).
//
// A model with an encoder of pictures sees: a picture is read by who asks, the encoder is called
// between passes, one call at a time, and its rows take the place of embeddings and of what is
// added between layers. A row of a picture is a node of the tree like a token, told from others by
// which picture it is of, so a picture is neither encoded nor evaluated again while its rows are
// kept (encodercache.go, signs.go).
//
// None of this is taken for granted: when a package first runs on a card, a probe of a few passes
// shows what the card does (prove.go, [Proven]), and only what was shown is used. [Stats].Proven
// says what. Whether the same rows give the same bits wherever they lie is asked too, and told
// ([Alike]): what needs that whatever the card does asks for it ([Request].Repeatable,
// repeatable.go).
//
// # Errors
//
// A request ends with [*ContextError], [ErrBusy], [ErrRequest], [ErrUnsupported], [ErrDraining],
// [ErrClosed], ctx's error, or a device's (package axcl). A pass that fails ends the sequences in
// it, except those that have said nothing, which are tried once more; three failures in a minute, a
// call that does not return, an error that leaves host and card out of step, and a card that gives
// other answers than before ([ErrWrong]) end the card for good: every sequence ends with
// axcl.ErrLost, [CardOptions].Lost is called, and the process should be started anew.
//
// # Several cards
//
// [OpenOptions].Device may name several cards: with commas each holds the model, behind one queue
// ([Replicate]); with plus signs each holds some of its layers ([Join]). [OpenCards] opens them
// once for many models. A copy's card that is lost leaves the others at work: answers that had
// begun on it end with [*FewerError], and [CardOptions].Lost is called with the last.
package engine
