package request

import (
	"net/http"

	"github.com/axle-llm/axle/internal/budget"
	"github.com/axle-llm/axle/server/body"
)

// VectorRoom takes room for a number of vectors, and refuses more of them than two thirds of all
// the room are for.
func (x *Exchange) VectorRoom(inputs, hidden int) error {
	each := int64(hidden)*4 + 256 // 32-bit numbers, and what a queued text is kept in
	//rule:T7 ./server TestVectorsWeighed false
	if most := budget.Get().Requests * 2 / 3 / each; int64(inputs) > most {
		return body.Fail(http.StatusRequestEntityTooLarge,
			"%d inputs give %d vectors of %d numbers, more than the server holds at once: send at most %d in a request",
			inputs, inputs, hidden, most)
	}
	//rule:T7 ./server TestVectorsWeighed x.more(int64(inputs) * each) => nil
	return x.more(int64(inputs) * each)
}

// How much text a reranking reads at most, and what stands around each document.
const (
	rerankText   = 64 << 20
	rerankAround = 512
	rerankAhead  = 64 // prompts that are there at a time
)

// RerankRoom takes room for this many documents, of text bytes in all and longest at most, that are
// each read with a query, and refuses more of them than are read for one request.
func (x *Exchange) RerankRoom(documents, text, longest, query int) error {
	each := int64(query + rerankAround)
	//rule:T7 ./server TestRerankWeighed false
	if most := (rerankText - int64(text)) / each; int64(documents) > most {
		return body.Fail(http.StatusRequestEntityTooLarge,
			"%d documents, each read with a query of %d bytes, are more text than a request may have read: send at most %d in a request, "+
				"or a shorter query", documents, query, most)
	}
	return x.more(min(int64(documents), rerankAhead)*(each+int64(longest))*body.TextCost + int64(documents)*256)
}

// What of several answers is kept until all are there: a token's text, and what is told of it with
// its rivals.
const (
	choiceToken   = 16
	choiceLogprob = 160
)

// ChoicesRoom takes room for n answers and the tokens of each, which are kept until all are there;
// told is how many log probabilities are told of a token. It refuses more than there is room for at
// all.
func (x *Exchange) ChoicesRoom(n, tokens, told int) error {
	each := int64(tokens) * int64(choiceToken+choiceLogprob*told)
	if int64(n)*each > budget.Get().Requests*2/3 {
		return body.Fail(http.StatusRequestEntityTooLarge,
			"%d answers of %d tokens with %d log probabilities each are more than the server keeps until all are there: "+
				"stream them, set a lower max_tokens, or ask for fewer answers", n, tokens, told)
	}
	return x.more(int64(n) * each)
}

// DrawingRoom takes room for n pictures of that size, which are kept as files until all are drawn
// or, where the answer streams, one at a time; and for one as pixels, as it comes and as a file is
// made of it, with those that are shown on the way to it.
func (x *Exchange) DrawingRoom(n, width, height, partial int, streams bool) error {
	pixels := int64(width) * int64(height)
	if streams {
		n = 2 // the file, and the event with it
	}
	return x.more(pixels * int64(4*n+7+3*partial))
}
