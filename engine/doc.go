// Package engine answers requests with a language model on a card.
//
// [Open] loads a package (a folder of .axmodel files) onto a card and returns a [Model].
// [Model.Chat] and [Model.Generate] return an answer as a sequence of events. [Model.Embed] returns
// vectors:
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
// Leaving the loop ends the answer, and so does ctx. The last event has Done set, with the reason,
// the usage and the times. [Model.Choices] returns several answers to one prompt, which is
// evaluated once (choices.go).
//
// # Goroutines
//
// Any number of goroutines may use models and cards at once. Each card has one goroutine, the
// worker, which owns the device from open to close and is locked to its thread. A request reaches
// the worker through a queue, and its answer comes back through a mailbox, so the card never waits
// for a reader. The caller closes a Model. Close ends the model's answers with [ErrClosed] and
// closes the package, and the card too if Open opened it. A [Card] opened by [OpenCard] may hold
// several models. Close it after them.
//
// # What the worker does
//
// The worker (package card) gives each tenant of the card its turns, shared out by time. Every
// loaded model is a tenant, and so is a model that is being loaded. A model's turn ends after each
// piece, a pass or a copy of rows, so that the other tenants have their turns.
//
// A model on a card has a fixed number of cache rows, called cells. Only the mask decides which
// cells a row sees, so any cell can hold any token. Sequences that begin alike share the cells of
// their beginning, and the cells of a finished sequence stay as a cache until they are needed
// (package cache). A prompt has neighbouring cells reserved for all its rows, because each separate
// run of cells costs copies (reserve.go).
//
// Each pass is planned (plan.go). The sequence that waited longest leads. It runs alone on the
// decode group, or with all others in a wide pass, whichever brings more rows for the time. The
// costs are measured at load and corrected after every pass (cost.go). A pass also carries guesses
// of the next tokens, where measurements show that they pay (speculate.go, draft.go). They come
// from the text so far, from other conversations of the client key (keytext.go), or from a smaller
// model ([OpenOptions].Draft). Each guess is compared with the token that is drawn, so the text is
// the same without them.
//
// Sequences are admitted so that running them together is never slower than one after another
// (admit.go). They are admitted in the order they came, while all that run find cells for the rest
// of their answers, and while a prompt finds cells that wide passes see. More are admitted where
// the possible cost (rows evaluated again, or one by one) is less than what running together saves,
// or than a small part of the work. All answers are complete after at most 1.05 times the time that
// one after another takes. Among equal requests, the first to come has its first token first.
//
// Wide passes see only the low cells. Where a prompt lacks them, rows that need not lie low are
// moved up, and the rows of a text that continues are moved down. This happens in pieces between
// passes, where the costs say that it is cheaper (relocate.go). Where near cells run out for
// answers that go on together, the youngest pause, and the others go on in their cells (shifts.go).
//
// Rows that leave the card may be saved in this machine's memory ([OpenOptions].CacheRAM). They are
// restored in pieces between passes, where that is cheaper than evaluating them (ramtier.go).
//
// Layers may have a state instead of rows (Qwen3.5). Then a sequence has a slot, and a pass carries
// rows of one sequence only. A text can be continued from a snapshot: a slot that is not changed
// any more, attached to the node of the tree after which it was made (slots.go). Such models do not
// guess. A snapshot is saved to memory and to disk with the rows before it, and they are restored
// together or not at all (ramstates.go, diskstates.go).
//
// A model with an encoder takes pictures. The caller's goroutine reads a picture, and the worker
// calls the encoder between passes, one call at a time. The encoded rows take the place of
// embeddings, and some are added between layers. A row of a picture is a node of the tree, as a
// token's row is, and has its picture's own number. So a picture is not encoded or evaluated again
// while its rows are cached (encodercache.go, signs.go).
//
// Nothing of this is assumed. When a package first runs on a card, a probe of a few passes shows
// what the card does (prove.go, [Proven]), and the engine uses only what was shown. [Stats].Proven
// says what that is. The probe also finds out whether the same rows give the same bits in every
// place ([Alike]). A request that needs this on any card asks for it ([Request].Repeatable,
// repeatable.go).
//
// # Errors
//
// A request ends with [*ContextError], [ErrBusy], [ErrRequest], [ErrUnsupported], [ErrDraining],
// [ErrClosed], ctx's error, or a device's error (package axcl). A pass that fails ends its
// sequences, except those without output, which are tried once more. The card is lost after three
// failures in a minute, a call that does not return, an error that leaves host and card out of
// step, or answers that differ from earlier ones ([ErrWrong]). Then every sequence ends with
// axcl.ErrLost, [CardOptions].Lost is called, and the process should be restarted.
//
// # Several cards
//
// [OpenOptions].Device may name several cards. With commas, each card holds the model, and they
// share one queue ([Replicate]). With plus signs, each card holds some of the layers ([Join]).
// [OpenCards] opens the cards once for many models. When the card of one copy is lost, the others
// continue: answers that had begun on it end with [*FewerError]. [CardOptions].Lost is called when
// the last one is lost.
package engine
