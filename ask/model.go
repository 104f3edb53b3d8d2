package ask

import (
	"context"
	"fmt"
	"iter"
	"math"
	"time"
)

// Model answers requests. All methods are safe for concurrent use. Package engine says what each
// does.
type Model interface {
	Info() Info
	Stats() Stats
	Sampling() Params
	Chat(ctx context.Context, r Request) iter.Seq2[Event, error]
	Generate(ctx context.Context, r Request) iter.Seq2[Event, error]
	Choices(ctx context.Context, r Request, s Several) iter.Seq2[Choice, error]
	Tokens(ctx context.Context, r Request) ([]int32, error)
	Detokenize(ids []int32) string
	Render(ctx context.Context, r Request) (string, error)
	Embed(ctx context.Context, r EmbedRequest) (Embeddings, error)
	Rerank(ctx context.Context, r RerankRequest) (Ranking, error)
	Transcribe(ctx context.Context, r TranscribeRequest) iter.Seq2[Segment, error]
	Speak(ctx context.Context, r SpeakRequest) iter.Seq2[Speech, error]
	Detect(ctx context.Context, r DetectRequest) ([]Detection, error)
	Draw(ctx context.Context, r DrawRequest) iter.Seq2[Drawing, error]
	Faces(ctx context.Context, r FaceRequest) ([]Face, error)
	Maps(ctx context.Context) []CellMap
	Close() error
}

// Info is what a model is. It does not change while the model is open.
type Info struct {
	Name         string
	Family       string
	Context      int // most tokens a sequence may hold
	Vocab        int
	Hidden       int
	Layers       int
	Capabilities Capabilities
	Think        Think    // what a request that does not say gets; zero: on where the model can
	Embedding    bool     // gives vectors, no text
	Prompts      []string // names of the prompts that may stand before a text that is embedded
	Draws        Draws
	Voices       []Voice
	SampleRate   int    // of what it speaks
	CardBytes    int64  // card memory it takes
	Memory       Memory // of what; zero where the backend does not tell
	DraftBytes   int64  // card memory that the draft model takes in addition
	Device       string
	Draft        string // the draft model, if any
}

// Memory is what loading the package will take, predicted from files and shapes before anything is
// loaded. Its JSON is that of 'axle inspect --json'.
type Memory struct {
	Layers int64 `json:"layers_bytes"` // weights of all layers, on the card
	Head   int64 `json:"head_bytes"`
	Cache  int64 `json:"cache_bytes"`            // K and V rows of all layers
	States int64 `json:"states_bytes,omitempty"` // slots for what layers with a state keep: sequences, and snapshots of them
	IO     int64 `json:"io_bytes"`               // buffers for inputs and outputs
	// LoRA adapters, which all stay on the card
	Adapters int64 `json:"adapters_bytes,omitempty"`
	// the encoder of pictures with its buffers: 0 where there is none that can be used
	Encoder int64 `json:"encoder_bytes,omitempty"`
	Card    int64 `json:"card_bytes"` // the sum of the above
	// the most that is taken while it is loaded: the library holds each file beside what is loaded,
	// the largest first and the encoder last; at least Card
	Load int64 `json:"loading_bytes"`
	Host int64 `json:"host_bytes"` // the embedding table, mapped: kept in memory only as far as it is used
}

// Stats is a backend's state, a snapshot.
type Stats struct {
	State                         string // "ready", "lost" with its card, "closed"
	Cells, CellsUsed, CellsCached int
	CellsShared                   int
	Running, Queued               int
	Slots, SlotsUsed              int // where layers keep a state: room for states on the card, and how many are taken
	SlotsKept                     int // of those, snapshots that a text may go on from
	// by kind: "decode" (one row), "batch" (answers), "prefill", "mixed" (both), "verify" (with
	// guesses)
	Passes                            map[string]uint64
	Rows                              uint64
	Encoded                           uint64        // calls of the encoder of pictures
	Encoding                          time.Duration // time inside them
	PromptTokens, CachedTokens        uint64
	OutputTokens                      uint64
	Drafted, Accepted                 uint64
	KeyDrafted, KeyAccepted           uint64 // of those, guesses from other conversations of the client key
	Cancelled, Failed, Done, Rejected uint64
	Proven                            map[string]bool // what the card was proven to do; "wide": see NoWidePasses
	Compared                          Compared        // with what its answers were compared when it was loaded
	Busy                              time.Duration   // time inside passes
	Piece                             time.Duration   // the longest piece of its work, during which urgent work waits; 0: not known yet
	Temperature                       float64
	NPULoad                           float64
	CardFree, CardTotal               int64
	Memory                            MemoryTier // rows that are kept in this machine's memory
	Disk                              DiskTier   // and on disk
	Far                               FarTier    // and behind the disk
	Head                              HeadStats
}

// DiskTier is what went of a model's cache rows to disk since it was loaded, and came back. The
// zero value says that nothing did.
type DiskTier struct {
	On    bool          // rows of this model are kept on disk
	Rows  int           // that fit where no other model has any
	Bytes int64         // that all models' may take
	Hits  uint64        // rows that came back
	Out   uint64        // bytes of rows that were copied off the card to be kept there
	In    uint64        // bytes of the rows that came back, copied onto the card
	Saved time.Duration // what evaluating them would have taken longer than copying them
}

// FarTier is what came of a model's cache rows from a place behind the disk, for example other
// machines. The zero value says that there is no such place.
type FarTier struct {
	Name  string        // what the place is called: peer, s3
	Hits  uint64        // rows that came
	In    uint64        // bytes of them
	Late  uint64        // reads that were called off, since evaluating was quicker
	Rate  int64         // bytes a second, as measured
	Wait  time.Duration // until the first byte, as measured
	Saved time.Duration // what evaluating the rows would have taken longer than copying them
}

// Handed counts what a model handed over before it was closed for good.
type Handed struct {
	Texts int // with all that they have on the card or in memory
	Saved int // blocks of rows that came to disk
	Sent  int // blocks that came from there to other machines or an object store
}

// MemoryTier is what is kept of a model's cache rows in this machine's memory. The zero value says
// that nothing is.
type MemoryTier struct {
	Rows, Used       int   // that fit where no other model has any, and that are there
	Bytes, UsedBytes int64 // the same in bytes
	Hits             uint64
	Out, In          uint64        // bytes copied off the card, and back onto it
	Saved            time.Duration // by rows that came back instead of being evaluated
}

// Compared is with what a model's answers were compared when it was loaded.
type Compared string

// What answers are compared with. The empty Compared is a model that has none to compare, as one
// that gives vectors.
const (
	ComparedKnown   Compared = "known"   // with what a sound card says
	ComparedEarlier Compared = "earlier" // with what an earlier load said
	ComparedNever   Compared = "never"
)

// NeverCompared says what Compared means for a model that never was.
const NeverCompared = "what this card makes of the model was never compared: no answer of the package is known, and this is its first " +
	"load here; load it once more, or ask it something whose answer you know"

// CellMap says what the cache rows of a model on one card hold.
type CellMap struct {
	Device                            string
	At                                time.Time // when the worker drew it
	Cells, Free, Used, Cached, Shared int       // Shared: rows that several branches begin with
	Branches                          []Branch  // those used last first, mostBranches of them
	Runs                              []CellRun
	Tiers                             []Tier
}

// Branch is a text from its first token to its last, as far as rows hold it: a conversation, or one
// of two that began alike.
type Branch struct {
	ID      int    // stays while the text grows; 1 or more
	Key     string // the request's
	Running bool   // a sequence stands on its end
	Tokens  int
	Shared  int // of these, the rows that other branches begin with too
}

// CellRun is a run of rows that hold the same kind of thing: a [Branch.ID], or one of the
// following.
type CellRun struct{ Cells, What int }

// What rows of a [CellRun] hold where that is no branch's text alone.
const (
	HoldsNothing = 0
	HoldsShared  = -1 // the beginning of several branches
	HoldsPass    = -2 // rows of the pass that runs
	HoldsOther   = -3 // of a branch that is not listed
)

// Tier is a place where cache rows lie. The first is the card's own memory.
type Tier struct {
	Name        string
	Cells, Used int // a disk is not looked through for how many it has: its Used is 0
	Bytes       int64
}

// Progress is how far a model is on its way to a card.
type Progress struct {
	Model       string // as OpenOptions.Name has it; a draft goes by its package's name
	File        string // that was loaded last
	Done, Total int    // files: the head and the layers, the largest first where that costs least memory
	Bytes, Of   int64  // the same in bytes of weights
	Elapsed     time.Duration
	Left        time.Duration // how long the rest will take, if it goes on as it went so far

	Needs, Free int64 // memory: what the load takes at the most, and what was free when it began; Free is 0 where that is not known

	Rates Rates // how quick the disk and the card are, side by side, and which of them holds the load back
}

// HumanBytes prints sizes as Ollama does, in powers of ten: 1.2 GB.
func HumanBytes(n int64) string {
	switch {
	case n >= 1e12:
		return humanUnit(float64(n)/1e12, "TB")
	case n >= 1e9:
		return humanUnit(float64(n)/1e9, "GB")
	case n >= 1e6:
		return humanUnit(float64(n)/1e6, "MB")
	case n >= 1e3:
		return humanUnit(float64(n)/1e3, "KB")
	}
	return fmt.Sprintf("%d B", n)
}

func humanUnit(v float64, unit string) string {
	if v >= 10 || v == math.Trunc(v) {
		return fmt.Sprintf("%d %s", int64(v), unit)
	}
	return fmt.Sprintf("%.1f %s", v, unit)
}

// Rates say how quick a load is, and what holds it back.
type Rates struct {
	Disk float64 // bytes a second that files were read with, the page cache among them; 0: nothing was read yet
	Card float64 // bytes a second that the card took of files that lay in memory when it began; 0: there was none yet
	Held string  // "disk" or "card": what the other waits for; empty: not known yet
}

// NoWidePasses says what follows where Stats.Proven has "wide" as false.
const NoWidePasses = "this card gets wide passes of the model wrong, so none is used: prompts go row by row, many times slower; " +
	"a newer driver or a newer build of the package may pass the check"

// Figures are what a benchmark measured of a model under a load: medians over its repeats, 0 where
// there is none.
type Figures struct {
	First         float64 // milliseconds to the first token
	Prefill       float64 // tokens a second
	Decode        float64 // tokens a second
	P50, P95, P99 float64 // milliseconds between tokens
	Busy          float64 // per cent of the time that the card computed
	Latency       []float64
}
