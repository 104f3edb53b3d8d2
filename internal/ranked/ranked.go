// Package ranked has the locks of engine, server and store, each with its place in one order. A
// goroutine takes them in that order and never two of the same place, so no two goroutines can wait
// for each other. Normally they are sync.Mutex and sync.RWMutex and nothing else. With the build
// tag invariants (the race lane), taking locks in the wrong order is a panic that names both, even
// if no other goroutine was there to hang on.
//
// The zero value of a lock is ready; its type says its place. Any package may use them.
package ranked

// Place is a lock's place in the order.
type Place interface {
	place() (rank int, name string)
}

// The places, outermost first.
type (
	Loader     struct{} // server/local: opens the card
	Host       struct{} // server/pool: models loaded
	Local      struct{} // server/local: what packages tell of themselves
	Store      struct{} // models/store: manifests and blobs that go
	Builtin    struct{} // models/store: hashes of what ships inside
	StoreInfo  struct{} // models/store: what packages tell of themselves
	StoreSound struct{} // models/store: which files are rotten
	Replicas   struct{} // engine: which card has what
	Card       struct{} // engine: a card's work and state
	Memory     struct{} // engine: rows in this machine's memory
	Pictures   struct{} // engine: what is known of pictures
	Model      struct{} // engine: a model's queue
	Mailbox    struct{} // engine: a sequence's tokens

	PullPlan    struct{} // models/store: files read to plan a pull
	PullFile    struct{} // models/store: how much of a file is there
	PullParts   struct{} // models/hub: how far a file's parts are
	PullReports struct{} // models/store: what a pull has to tell

	Progress struct{} // server/manage: status lines that were not sent yet
	Session  struct{} // server/vendor: the one conversation
	Conns    struct{} // server: how many connections each client has
	Items    struct{} // server/openai: items of answers that a request may name
	Told     struct{} // server: what the log has said already
	Metrics  struct{} // server and server/answer: counts
	Monitor  struct{} // server/monitor: answers that run, loads, the benchmark
	Uses     struct{} // server/access: whose uses are counted
	Use      struct{} // server/access: what a key has used

	Wyoming  struct{} // server/wyoming: who writes to a connection
	Realtime struct{} // server/realtime: what was said in a session

	Templates struct{} // engine: templates that requests brought

	EventsOut struct{} // server/kvevents: what is published
	Events    struct{} // server/kvevents: which blocks there are

	Journals  struct{} // server/conversations/journal: whose conversations there are
	Journal   struct{} // server/conversations/journal: what an owner has
	Documents struct{} // server/documents: files that are to be indexed
	Tools     struct{} // server/mcp: which servers and sessions there are
	Peers     struct{} // server/peers: requests that were there, and who has what
	Pause     struct{} // models/rows: places that are left alone
)

func (Loader) place() (int, string)     { return 0, "loader" }
func (Host) place() (int, string)       { return 1, "host" }
func (Local) place() (int, string)      { return 2, "local models" }
func (Store) place() (int, string)      { return 3, "store" }
func (Builtin) place() (int, string)    { return 4, "store's built-in packages" }
func (StoreInfo) place() (int, string)  { return 5, "store's descriptions" }
func (StoreSound) place() (int, string) { return 6, "store's soundness" }
func (Replicas) place() (int, string)   { return 7, "replicas" }
func (Card) place() (int, string)       { return 8, "card" }
func (Memory) place() (int, string)     { return 9, "rows in memory" }
func (Pictures) place() (int, string)   { return 10, "pictures" }
func (Model) place() (int, string)      { return 11, "model" }
func (Mailbox) place() (int, string)    { return 12, "mailbox" }

func (PullPlan) place() (int, string)    { return 13, "pull's plan" }
func (PullFile) place() (int, string)    { return 14, "pull's file" }
func (PullParts) place() (int, string)   { return 15, "pull's parts" }
func (PullReports) place() (int, string) { return 16, "pull's reports" }

func (Progress) place() (int, string) { return 17, "progress" }
func (Session) place() (int, string)  { return 18, "conversation" }
func (Conns) place() (int, string)    { return 19, "connections" }
func (Items) place() (int, string)    { return 20, "answers' items" }
func (Told) place() (int, string)     { return 21, "log's memory" }
func (Metrics) place() (int, string)  { return 22, "metrics" }
func (Monitor) place() (int, string)  { return 23, "view" }
func (Uses) place() (int, string)     { return 24, "keys" }
func (Use) place() (int, string)      { return 25, "key's use" }

func (Wyoming) place() (int, string)  { return 26, "satellite" }
func (Realtime) place() (int, string) { return 27, "voice conversation" }

func (Templates) place() (int, string) { return 28, "templates" }

func (EventsOut) place() (int, string) { return 29, "published events" }
func (Events) place() (int, string)    { return 30, "blocks for events" }

func (Journals) place() (int, string)  { return 31, "journals" }
func (Journal) place() (int, string)   { return 32, "journal" }
func (Documents) place() (int, string) { return 33, "documents" }
func (Tools) place() (int, string)     { return 40, "tool servers" }
func (Peers) place() (int, string)     { return 34, "peers" }
func (Pause) place() (int, string)     { return 35, "pause" }
