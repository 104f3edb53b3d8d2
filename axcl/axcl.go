// Package axcl says what a card is: a [Device] that loads models, a [Model] that runs a [Pass], and
// the errors both give.
//
// It is pure Go and does no I/O. Implementations are axcl/native (the vendor's libraries),
// axcl/soft (a card in Go); axcl/cards chooses.
//
// A Device and all that it made belong to one goroutine, which holds its OS thread
// (runtime.LockOSThread) from the moment it opens the device until it has closed it: the vendor's
// library binds its context to a thread. The caller closes a Device that it opened; Close also
// closes the models that are still open. Nothing here may be called from two goroutines at once.
package axcl

import "time"

// Device is one opened card.
//
// A device may also have a method Gone() bool, which looks whether the card has left its bus. It
// touches no library, and is the one method that any goroutine may call at any time: the watchdog
// asks it while a call hangs.
type Device interface {
	// Info reads the card's state now: a round trip to the driver, never for the token loop. It
	// fails with ErrLost when the card is gone, ErrLate where the card does not tell in time, and
	// ErrClosed after Close.
	Info() (Info, error)

	// Loader begins to put a language model's layers and head on the card; nothing is there yet.
	// [Load] does all of it in one go. Errors: ErrModel (a file is no model, or shapes disagree,
	// where the files show it), ErrLost, ErrClosed.
	Loader(spec LoadSpec) (Loader, error)

	// LoadNet loads any single model for calls by tensor name. Errors as [Load].
	LoadNet(path string) (Net, error)

	// NewBuffer takes bytes of card memory that nets' tensors can be bound to. They are zero.
	// Errors: ErrPass (no size), ErrMemory, ErrLost, ErrClosed.
	NewBuffer(size int) (Buffer, error)

	// Close releases every model, net and buffer, and the card. After ErrTimeout or ErrLost it
	// abandons the library instead of waiting for it. A second Close does nothing and returns
	// ErrClosed.
	Close() error
}

// LoadSpec names the files of a language model.
type LoadSpec struct {
	// Layers are one .axmodel a layer, in order, at least one; or the files of a whole decoder
	// (Shape.Whole): one, or one for tokens and one for prompts. Which they are is read from them.
	Layers []string
	Head   string // the post model; empty for a part of a model split over cards, and for a whole decoder

	// Progress, when set, is called by [Load] after each file: which it was (an index into Layers,
	// len(Layers) for the head), files done and their total. The order is the card's: where a load
	// takes a file's size of card memory in addition, the largest comes first.
	Progress func(file, done, total int)
	// Order, when set, is told by [Load] in which order files go to the card, before the first,
	// numbered as for Progress. Who reads files ahead goes by it.
	Order func(files []int)
	// Timeout bounds one pass; 0 or less means 60 s. When it passes, Run gives ErrTimeout and the
	// device is lost.
	Timeout time.Duration
	// Local says which of Layers hide rows older than a window (Gemma's sliding attention):
	// Pass.LocalCells and LocalRows are what those see. Nil for none; else as long as Layers.
	Local []bool
	// Slots is how many states the model has room for, where layers of it keep one; 0 stands for 2.
	// Others do not look at it. A card takes one slot more than that: a pass that leaves the new
	// state in the slot it read writes it there first.
	Slots int
	// Beside names other layers of the same model where Layers are a part of it; they are read and
	// not loaded. Where every one of Layers keeps a state, the cells and groups that the whole goes
	// by are those of the first of Beside that keeps rows.
	Beside []string
	// Source says of each of Layers whose K and V it uses: its own number, or that of one before
	// it, which keeps its own; its files have room for the rows of a call behind those of the
	// cache. Nil: every layer keeps its own.
	Source []int
	// Adapters are LoRA adapters, for a model whose layers take one as inputs. Each gives what the
	// inputs of a layer hold, one after the other, A and B of q, k, v, o, gate, up and down. They
	// stay on the card: see Pass.Adapter. It is asked for each layer once, while the model is
	// loaded. Its error ends the load; so does a size that is not that of the inputs (ErrModel).
	Adapters []func(layer int) ([]byte, error)
	// NoInPlace makes the model store new rows by copies, even where a probe shows that binding
	// them in place works.
	NoInPlace bool
}

// Model is a loaded language model, or a run of its layers.
type Model interface {
	// Shape never changes once loaded.
	Shape() Shape
	// Run sends a pass through every layer and the head: see [Pass] for the contract. It blocks
	// until the results are there, at most LoadSpec.Timeout. Errors: ErrPass (nothing was done),
	// ErrClosed, ErrThread, ErrLost and ErrTimeout (the device is lost; what was queued may still
	// be under way), or an *Error of a call that failed on a device that goes on working.
	Run(*Pass) error
	// Head sends hidden rows, as the last layer gives them, through the head alone: rows holds one
	// or more of Shape.Hidden values, bf16, and logits receives Shape.Out values for each, as
	// Pass.Logits does. A row that a pass gave in HiddenOut gives the same bits as in that pass. No
	// layer runs, and no cell and no slot is read or written. [Shape.CheckHead] says what is not
	// allowed: a model without a head, a whole decoder, more rows than HeadRows.
	//
	// It is called as Run is, between passes, and blocks until the logits are there: a card takes a
	// few rows at a time, each time at most LoadSpec.Timeout. It allocates nothing. Errors: as Run;
	// after one that is not ErrPass, logits holds nothing that may be used.
	Head(rows, logits []uint16) error
	// Clear makes K and V of the cells zero in every layer: what a pass left there that failed, or
	// gave no numbers, must not be read, and a NaN weighs on a row that does not see its cell too.
	// The cells ascend. Errors: as Run; after one they hold nothing that may be used.
	Clear(cells []uint32) error

	// Save copies the rows of cells to memory of the host: row i of to, Shape.RowBytes bytes, is
	// what cell cells[i] holds in every layer. The cells stay as they are. [Shape.CheckRows] says
	// what is not allowed, and is asked before the card is touched.
	//
	// Save, Restore and Copy are called as Run is, by the goroutine that owns the card, between
	// passes, and block until the rows are there: one call into the library's queue, one
	// synchronisation, at most LoadSpec.Timeout. They allocate nothing. A call takes at most
	// Shape.Piece cells, so a pass that waits waits for one piece. What it costs is a part
	// for every run of [Runs], since each is a copy of K and one of V in every layer, and a part
	// for every row: consecutive cells cost least. A caller that measures both for each of the
	// three, at load, on unused cells (one row; a piece in one run; two runs), knows the price of
	// any call.
	//
	// A row's bytes mean nothing but to a model of the same files on a card of the same kind, which
	// takes them back by Restore, on any cell: layer after layer, in each its K and then its V,
	// bf16, as the card keeps them. So rows can be cut apart and joined by slicing.
	//
	// Errors: as Run. After one that is not ErrPass, to holds nothing that may be used.
	Save(cells []uint32, to []byte) error
	// Restore is Save's reverse: cell cells[i] of every layer becomes row i of from, and every
	// other cell stays as it was. It gives the card what it is given: that these are bytes which
	// Save gave is the caller's to know. Errors: as Run; after one that is not ErrPass the cells
	// hold nothing that may be used, as after a pass that failed.
	Restore(cells []uint32, from []byte) error
	// Copy copies rows from cells to cells on the card: cell to[i] of every layer becomes what cell
	// from[i] holds, which stays as it is. No cell is in both. [Shape.CheckCopy] says what else is
	// not allowed. A run is one of [Runs] of both lists. Errors: as Run; after one that is not
	// ErrPass the cells of to hold nothing that may be used, and those of from are as before unless
	// it is fatal.
	Copy(to, from []uint32) error

	// SaveState copies bytes of a slot to memory of the host: those from at on, as many as to has,
	// of the Shape.State that a slot takes. The slot stays as it is. It is called as Save is; a
	// call takes at most Shape.StatePiece bytes, so a slot takes several calls, between which
	// passes may run that leave it alone. [Shape.CheckState] says what is not allowed. It costs a
	// part for every layer's state that the bytes lie in, and a part for every byte.
	//
	// A state's bytes mean nothing but to a model of the same files on a card of the same kind:
	// layer after layer of those that keep one, in each its K_cache and then its V_cache, whatever
	// their types. A slot that nothing was left in holds zeros.
	//
	// Errors: as Run. After one that is not ErrPass, to holds nothing that may be used.
	SaveState(slot uint32, at int, to []byte) error
	// RestoreState is SaveState's reverse. A slot holds a state only once all of its bytes are
	// there. Errors: as Run; after one that is not ErrPass the slot holds nothing that may be used.
	RestoreState(slot uint32, at int, from []byte) error
	// Close releases the model. A second Close does nothing and returns ErrClosed.
	Close() error
}

// Group is one compiled shape of a layer: how many rows go in at once, and how many cache rows they
// can look back on.
type Group struct {
	Rows  int // rows a call takes: 1 in a decode group
	Cells int // cells [0, Cells) can be seen
}

// Shape is what the files say a model is. All layers of a model agree on it.
type Shape struct {
	Layers      int
	Hidden      int     // length of a hidden row
	KV          int     // length of a row of K, or of V; of the longest where layers differ
	Kept        int     // values of K that all layers keep of a row, and as many of V; 0 where that is Layers − Linear times KV
	Cells       int     // cache rows, the same for every layer: the most that any group sees
	Out         int     // length of a row the head gives: the vocabulary, or Hidden for an embedding head; 0 without a head
	Groups      []Group // in the model's own order
	Pos         int     // positions a row carries: 1, or 3 with multimodal RoPE
	Piece       int     // cells that one Save, Restore or Copy takes at most, of [PieceCells]; 0: rows cannot be copied
	Argmax      bool    // the head finds the largest logit on the card
	Place       bool    // new rows are bound on their cells: no copies
	Local       bool    // some layers see Pass.LocalCells and LocalRows
	Whole       bool    // one call takes rows through all layers and gives logits: nothing is added between layers, no hidden row comes out
	Linear      int     // of Layers, how many keep a state in a slot instead of rows of K and V in cells: see Pass.From
	Shared      int     // of Layers, how many use the K and V of one before them, and keep none
	LayerInputs int     `json:"Given"` // of a row, values that each layer takes beyond the hidden state: Pass.LayerInputs; 0 for none
	State       int     // bytes that a slot takes: the states of those layers; 0 where there are none
	Adapters    int     `json:",omitempty"` // that Pass.Adapter may name, from 1 on
	Slots       int     // slots that passes may use, numbered from 1; 0 where State is
	Bytes       int64   // card memory the model holds, as far as known
}

// Info is a card's state.
type Info struct {
	Kind        string // "axcl", "axengine", "soft"
	Name        string // the chip, e.g. "AX650N"
	ID          string // how to open it again, e.g. "axcl:0"
	Bus         string // PCIe address, where there is one
	Library     string // path of the library, empty for soft
	Version     string // runtime's version
	Firmware    string
	Temperature float64 // °C; NaN when unknown
	TotalCMM    int64   // bytes that models may take; 0 when unknown
	FreeCMM     int64
	TotalMem    int64 // the card's own Linux
	FreeMem     int64
	Host        bool    // it has no memory of its own: models take this machine's, and TotalMem and FreeMem are that
	NPULoad     float64 // per cent; NaN when unknown
	CPULoad     float64
	Missing     []string // optional calls the library lacks
}

// Type is a tensor's element type.
type Type uint8

// Element types, in the vendor's AXCL numbering.
const (
	TypeNone Type = iota
	Int4
	Uint4
	Int8
	Uint8
	Int16
	Uint16
	Int32
	Uint32
	Int64
	Uint64
	FP4
	FP8
	FP16
	BF16
	FP32
	FP64
)

var typeNames = [...]string{"none", "int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "fp4", "fp8",
	"fp16", "bf16", "fp32", "fp64"}

func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return "unknown"
}
