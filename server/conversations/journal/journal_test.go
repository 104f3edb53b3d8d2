package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAppend(t *testing.T) {
	m := newMem()
	o := start(t, m, Options{})
	first := put(t, o, "A", version("x", 0, "one"))
	put(t, o, "B", version("y", 0, "other"))
	second := put(t, o, "A", version("x", first, "two"))
	if _, err := o.Append("A", []Record{version("z", 0, "kept"), version("x", first, "three"), version("w", 0, "not kept")}); err == nil {
		t.Error("a version that follows an old one was taken")
	} else if c := new(Conflict); !errors.As(err, &c) || c.Key != "x" || c.Seq != second {
		t.Error(err)
	}
	if got := texts(pageOf(t, o, 0)); got != "By=other Ax=two Az=kept" {
		t.Error(got)
	}
	if got := texts(pageOf(t, o, second)); got != "Az=kept" {
		t.Error(got)
	}
	o = start(t, m, Options{}) // and all of it again from the disk
	if got := texts(pageOf(t, o, 0)); got != "By=other Ax=two Az=kept" {
		t.Error(got)
	}
	all, err := o.Chat("A", true)
	if err != nil || len(all) != 3 {
		t.Error(all, err)
	}
	if all, err = o.Chat("A", false); err != nil || len(all) != 2 {
		t.Error(all, err)
	}
}

// TestAgain: a record whose acknowledgement was lost is sent again, and is kept once.
func TestAgain(t *testing.T) {
	o := start(t, newMem(), Options{})
	one := version("x", 0, "one")
	a := put(t, o, "A", one)
	if b := put(t, o, "A", one); a != b {
		t.Error(a, b)
	}
	two := put(t, o, "A", version("x", a, "two"))
	if b := put(t, o, "A", one); b != a { // it was overtaken since: no conflict
		t.Error(a, b)
	}
	if p := pageOf(t, o, 0); texts(p) != "Ax=two" || p.Cursor != two {
		t.Error(p)
	}
}

func TestBadRecords(t *testing.T) {
	o := start(t, newMem(), Options{Size: 100 << 20})
	sound := version("x", 0, "one")
	with := func(f func(*Record)) []Record { r := sound; f(&r); return []Record{r} }
	big := json.RawMessage(`{"t":"` + strings.Repeat("a", MaxRecord) + `"}`)
	for name, tt := range map[string]struct {
		chat string
		list []Record
		want string
	}{
		"no records":    {"A", nil, "1 to 500 records"},
		"too many":      {"A", make([]Record, MaxBatch+1), "1 to 500 records"},
		"a path":        {"../A", []Record{sound}, "letters, digits"},
		"an empty chat": {"", []Record{sound}, "letters, digits"},
		"a long chat":   {strings.Repeat("a", 65), []Record{sound}, "letters, digits"},
		"a key":         {"A", with(func(r *Record) { r.Key = "a b" }), "id and key"},
		"no key":        {"A", with(func(r *Record) { r.Key = "" }), "id and key"},
		"an id":         {"A", with(func(r *Record) { r.ID = "\n" }), "id and key"},
		"no body":       {"A", with(func(r *Record) { r.Body = nil }), "no JSON object"},
		"a list":        {"A", with(func(r *Record) { r.Body = json.RawMessage("[]") }), "no JSON object"},
		"half a body":   {"A", with(func(r *Record) { r.Body = json.RawMessage("{") }), "no JSON object"},
		"a large body":  {"A", with(func(r *Record) { r.Body = big }), "at most"},
		"a blob's name": {"A", with(func(r *Record) { r.Blobs = []string{"../x"} }), "64 hexadecimal"},
		"a gone blob":   {"A", with(func(r *Record) { r.Gone, r.Blobs = true, []string{hash("")} }), "no pictures"},
		"no such blob":  {"A", with(func(r *Record) { r.Blobs = []string{hash("")} }), "send it first"},
	} {
		if _, err := o.Append(tt.chat, tt.list); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if p := pageOf(t, o, 0); len(p.Records) > 0 {
		t.Error(p)
	}
	if err := o.Delete("../owner"); err == nil {
		t.Error("a path was deleted")
	}
	if _, err := o.Chat("none", false); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
}

// TestDeleted: of what was deleted no byte stays, and it does not come back.
func TestDeleted(t *testing.T) {
	m := newMem()
	o := start(t, m, Options{})
	picture := []byte("the picture's bytes")
	sum := sha256.Sum256(picture)
	name := hex.EncodeToString(sum[:])
	if err := o.PutBlob(name, picture); err != nil {
		t.Fatal(err)
	}
	a := put(t, o, "A", version("x", 0, "a secret word"))
	r := version("y", 0, "another secret")
	r.Blobs = []string{name}
	put(t, o, "A", r)
	put(t, o, "A", version("z", 0, "what stays"))
	tomb := Record{ID: "gone", Key: "x", Base: a, Gone: true, Body: json.RawMessage(`{"parent":null}`)}
	at := put(t, o, "A", tomb)
	if m.holds("a secret word") {
		t.Error("a turn that was deleted is still in the folder")
	}
	// What was deleted can be written again by who knows of the deletion.
	put(t, o, "A", version("x", at, "once more"))
	for range 2 {
		if got := texts(pageOf(t, o, 0)); got != "Ay=another secret Az=what stays Ax=once more" {
			t.Error(got)
		}
		o = start(t, m, Options{})
	}
	if err := o.Delete("A"); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"secret", "once more", "what stays", "picture's"} {
		if m.holds(s) {
			t.Errorf("%q is still in the folder", s)
		}
	}
	for range 2 {
		if _, err := o.Append("A", []Record{version("x", 0, "from a device that was away")}); !errors.Is(err, ErrGone) {
			t.Error("a deleted conversation came back:", err)
		}
		if p := pageOf(t, o, 0); texts(p) != "-A" {
			t.Error(texts(p))
		}
		if _, err := o.Blob(name); !errors.Is(err, ErrNoBlob) {
			t.Error(err)
		}
		o = start(t, m, Options{})
	}
}

// TestBlobs: a picture stays as long as a record has it, or for an hour.
func TestBlobs(t *testing.T) {
	m, now := newMem(), time.Unix(1e9, 0)
	o := start(t, m, Options{now: func() time.Time { return now }})
	keep := func(s string) string {
		if err := o.PutBlob(hash(s), []byte(s)); err != nil {
			t.Fatal(err)
		}
		return hash(s)
	}
	if err := o.PutBlob(hash("a"), []byte("b")); err == nil {
		t.Error("a picture was kept under another's name")
	}
	if err := o.PutBlob(hash(""), nil); err == nil {
		t.Error("a picture without bytes was kept")
	}
	one, two := keep("one"), keep("two")
	a := version("x", 0, "a")
	a.Blobs = []string{one}
	at := put(t, o, "A", a)
	b := version("x", 0, "b")
	b.Blobs = []string{one}
	put(t, o, "B", b)
	now = now.Add(2 * orphanTime)
	keep("three")
	if _, err := o.Blob(two); !errors.Is(err, ErrNoBlob) {
		t.Error("a picture without a record stayed:", err)
	}
	if err := o.Delete("B"); err != nil {
		t.Fatal(err)
	}
	o = start(t, m, Options{})
	if got, err := o.Blob(one); err != nil || string(got) != "one" {
		t.Error("a picture went with one of its two records:", err)
	}
	put(t, o, "A", Record{ID: "g", Key: "x", Base: at, Gone: true, Body: json.RawMessage("{}")})
	if _, err := o.Blob(one); !errors.Is(err, ErrNoBlob) {
		t.Error(err)
	}
	keep("four")
	m.names[o.at(blobOf(hash("four")))].data[0] ^= 1
	if _, err := o.Blob(hash("four")); !errors.Is(err, ErrNoBlob) {
		t.Error("a damaged picture was given:", err)
	}
}

// TestOwners: what one key keeps no other finds.
func TestOwners(t *testing.T) {
	o := start(t, newMem(), Options{})
	put(t, o, "A", version("x", 0, "mine"))
	if err := o.PutBlob(hash("p"), []byte("p")); err != nil {
		t.Fatal(err)
	}
	other := owner(t, o.f, "id:two")
	if p := pageOf(t, other, 0); len(p.Records) > 0 {
		t.Error(p)
	}
	if _, err := other.Chat("A", false); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
	if _, err := other.Blob(hash("p")); !errors.Is(err, ErrNoBlob) {
		t.Error(err)
	}
	put(t, other, "A", version("x", 0, "another's of the same name"))
	if err := other.Delete("A"); err != nil {
		t.Error(err)
	}
	if got := texts(pageOf(t, o, 0)); got != "Ax=mine" {
		t.Error(got)
	}
}

// TestDamage: a damaged byte costs the record that has it, and is told.
func TestDamage(t *testing.T) {
	for at := 0; ; at++ {
		m := newMem()
		o := start(t, m, Options{})
		for i := range 3 {
			put(t, o, "A", version(fmt.Sprint("k", i), 0, fmt.Sprint("words", i)))
		}
		round := pageOf(t, o, 0).Round
		data := m.names[o.at(logOf("A"))].data
		if at >= len(data) {
			break
		}
		data[at] ^= 0x24
		torn := at == len(data)-1 // the end of the last line: what came before it is whole
		told := 0
		o = start(t, m, Options{Damage: func(error) { told++ }})
		p := pageOf(t, o, 0)
		newline := strings.IndexByte(string(data[at:at+1]), '\n'^0x24) == 0
		if n := len(p.Records); n < 2 || n == 2 && (told != 1 || p.Round != round+1) && at < len(data)-1 || n == 3 && !newline && !torn {
			t.Fatalf("byte %d: %d records are left, told %d times, round %d", at, n, told, p.Round)
		}
		told = 0
		o = start(t, m, Options{Damage: func(error) { told++ }})
		if again := pageOf(t, o, 0); told > 0 || len(again.Records) != len(p.Records) || again.Round != p.Round {
			t.Fatalf("byte %d: told again", at)
		}
	}
}

func TestQuotas(t *testing.T) {
	m := newMem()
	o := start(t, m, Options{Size: 4000})
	var last uint64
	for i := 0; ; i++ {
		seqs, err := o.Append("A", []Record{version(fmt.Sprint("k", i), 0, strings.Repeat("a", 100))})
		if r := new(Refusal); errors.As(err, &r) && r.Full && i > 5 {
			break
		}
		if err != nil || i > 100 {
			t.Fatal(i, err)
		}
		last = seqs[0]
	}
	put(t, o, "A", Record{ID: "g", Key: "k0", Base: 1, Gone: true, Body: json.RawMessage("{}")}) // what makes room is always taken
	put(t, o, "A", version("new", 0, "fits now"))
	if used, most, err := o.Used(); used > most || err != nil {
		t.Error(used, most, err)
	}
	m.free = 10
	if _, err := o.Append("A", []Record{version("y", 0, "a")}); err == nil || !strings.Contains(err.Error(), "disk") {
		t.Error(err)
	}
	_ = last
}

// TestGonePruned: a device that was away while deletions were forgotten is told what there is.
func TestGonePruned(t *testing.T) {
	m := newMem()
	o := start(t, m, Options{gone: 20})
	put(t, o, "A", version("x", 0, "a"))
	for i := range 30 {
		if err := o.Delete(fmt.Sprint("c", i)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		p := pageOf(t, o, 1)
		if fmt.Sprint(p.Chats) != "[A]" || p.Cursor != o.last {
			t.Error(p.Chats, p.Cursor)
		}
		if p = pageOf(t, o, o.last-3); p.Chats != nil || len(p.Records) != 3 {
			t.Error(p)
		}
		o = start(t, m, Options{gone: 20})
	}
}

// TestForget: nothing stays, and the owner is someone new.
func TestForget(t *testing.T) {
	m := newMem()
	o := start(t, m, Options{})
	put(t, o, "A", version("x", 0, "a secret"))
	had := pageOf(t, o, 0).ID
	if err := o.Forget(); err != nil {
		t.Fatal(err)
	}
	p := pageOf(t, o, 0)
	if m.holds("secret") || p.ID == had || len(p.Records) > 0 {
		t.Error(p)
	}
	put(t, o, "A", version("x", 0, "again"))
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := start(t, newMem(), Options{})
		p := pageOf(t, o, 0)
		go func() {
			<-time.After(time.Second)
			put(t, o, "A", version("x", 0, "a"))
		}()
		began := time.Now()
		if err := o.Wait(t.Context(), p.ID, p.Round, p.Cursor); err != nil || time.Since(began) != time.Second {
			t.Error(err, time.Since(began))
		}
		if err := o.Wait(t.Context(), p.ID, p.Round, p.Cursor); err != nil { // there is something already
			t.Error(err)
		}
	})
}

func TestSecondServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	f, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: dir, wait: time.Millisecond}); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Error(err)
	}
	put(t, owner(t, f, ""), "A", version("x", 0, "a"))
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	f, err = Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if got := texts(pageOf(t, owner(t, f, ""), 0)); got != "Ax=a" {
		t.Error(got)
	}
	_ = f.Close()
	if _, err := f.Owner(""); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestModes: all that is kept is for its owner only, and a folder that is not is refused.
func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	f, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	o := owner(t, f, "")
	put(t, o, "A", version("x", 0, "a"))
	if err := o.PutBlob(hash("p"), []byte("p")); err != nil {
		t.Fatal(err)
	}
	files := 0
	_ = filepath.Walk(dir, func(name string, st os.FileInfo, err error) error {
		if files++; err != nil || st.Mode().Perm()&0o077 != 0 {
			t.Error(name, st.Mode(), err)
		}
		return nil
	})
	if files < 6 {
		t.Error(files)
	}
	_ = f.Close()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if f, err := Open(Options{Dir: dir}); err == nil {
		t.Error("a folder that others can read was taken")
		_ = f.Close()
	}
}

// TestCrashes: whatever operation of the disk fails, and whatever a power cut leaves then, what was
// acknowledged is there, what was deleted is not, and the journal goes on.
func TestCrashes(t *testing.T) {
	//proves:G9 conversations, at every operation
	trials := 0
	for seed := uint64(1); seed <= 5; seed++ {
		for failAt := 1; ; failAt++ {
			trials++
			if !crash(t, seed, failAt, failAt%2 == 0) || t.Failed() {
				break
			}
		}
	}
	if trials < 500 {
		t.Error("only", trials, "trials")
	}
}

func start(t *testing.T, m *mem, o Options) *Owner {
	t.Helper()
	o.disk = m
	m.locked = false
	f, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return owner(t, f, "id:one")
}

func owner(t *testing.T, f *Folder, name string) *Owner {
	t.Helper()
	o, err := f.Owner(name)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func version(key string, base uint64, words string) Record {
	return Record{ID: "r" + hash(key + words)[:20], Key: key, Base: base, Body: json.RawMessage(fmt.Sprintf("{\"text\":%q}", words))}
}

// put appends one record and gives its place.
func put(t *testing.T, o *Owner, chat string, r Record) uint64 {
	t.Helper()
	seqs, err := o.Append(chat, []Record{r})
	if err != nil || len(seqs) != 1 {
		t.Fatal(seqs, err)
	}
	return seqs[0]
}

func pageOf(t *testing.T, o *Owner, seq uint64) Page {
	t.Helper()
	p, err := o.Since(seq)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func texts(p Page) (s string) {
	for _, r := range p.Records {
		if r.Gone {
			s += "-" + r.Chat + r.Key + " "
			continue
		}
		var b struct{ Text string }
		_ = json.Unmarshal(r.Body, &b)
		s += r.Chat + r.Key + "=" + b.Text + " "
	}
	return strings.TrimSpace(s)
}

// world is what must be there: the newest acknowledged version of each thing.
type world struct {
	words map[string]string // by chat and key
	seqs  map[string]uint64
	gone  map[string]bool   // chats
	maybe map[string]string // a change that failed: it may be there or not
}

// crash runs changes until the disk fails, cuts the power and looks. It reports whether it failed.
func crash(t *testing.T, seed uint64, failAt int, dead bool) bool {
	rng := rand.New(rand.NewPCG(seed, 1))
	m := newMem()
	m.failAt, m.dead = failAt, dead
	w := &world{map[string]string{}, map[string]uint64{}, map[string]bool{}, nil}
	f, err := Open(Options{disk: m})
	if err != nil {
		return true
	}
	o := owner(t, f, "")
	stopAfter := 40
	for n := 0; n < stopAfter; n++ {
		w.maybe = nil
		if err := w.change(o, rng, n); err != nil && !ours(err) {
			if dead || rng.IntN(2) == 0 {
				break
			}
			// The disk failed once, and the server goes on.
			w.look(t, o, fmt.Sprintf("seed %d, operation %d, at once", seed, failAt))
		}
	}
	what := fmt.Sprintf("seed %d, operation %d", seed, failAt)
	failed := m.ops >= failAt
	for range 3 {
		after := m.cut(rng)
		f, err := Open(Options{disk: after})
		if err != nil {
			t.Fatal(what, err)
		}
		now := &world{maps.Clone(w.words), maps.Clone(w.seqs), maps.Clone(w.gone), w.maybe}
		now.look(t, owner(t, f, ""), what)
		put(t, owner(t, f, ""), "last", version("x", 0, "goes on"))
		_ = f.Close()
	}
	return failed
}

func (w *world) change(o *Owner, rng *rand.Rand, n int) error {
	chat, key := fmt.Sprint("c", rng.IntN(4)), fmt.Sprint("k", rng.IntN(5))
	if w.gone[chat] {
		chat = fmt.Sprint("d", n)
	}
	at, words := chat+"/"+key, fmt.Sprintf("word-%d-", n)
	switch roll := rng.IntN(20); {
	case roll == 0:
		w.maybe = map[string]string{chat: "gone"}
		err := o.Delete(chat)
		if err == nil {
			w.gone[chat], w.maybe = true, nil
		}
		return err
	case roll < 5 && w.words[at] != "":
		w.maybe = map[string]string{at: ""}
		seqs, err := o.Append(chat, []Record{{ID: fmt.Sprint("g", n), Key: key, Base: w.seqs[at], Gone: true, Body: json.RawMessage("{}")}})
		if err == nil {
			w.words[at], w.seqs[at], w.maybe = "", seqs[0], nil
		}
		return err
	}
	w.maybe = map[string]string{at: words}
	seqs, err := o.Append(chat, []Record{version(key, w.seqs[at], words)})
	if err == nil {
		w.words[at], w.seqs[at], w.maybe = words, seqs[0], nil
	}
	return err
}

// look compares what is there with what was acknowledged, and takes note of what a failed change
// has come to.
func (w *world) look(t *testing.T, o *Owner, what string) {
	t.Helper()
	there, seqs := map[string]string{}, map[string]uint64{}
	for seq, more := uint64(0), true; more; {
		p, err := o.Since(seq)
		if err != nil {
			t.Fatal(what, err)
		}
		seq, more = p.Cursor, p.More
		for _, r := range p.Records {
			var b struct{ Text string }
			_ = json.Unmarshal(r.Body, &b)
			if r.Key != "" {
				there[r.Chat+"/"+r.Key], seqs[r.Chat+"/"+r.Key] = b.Text, r.Seq
			} else if w.maybe[r.Chat] == "gone" {
				w.gone[r.Chat] = true
			}
		}
	}
	for at, words := range w.words {
		chat, _, _ := strings.Cut(at, "/")
		switch got := there[at]; {
		case w.gone[chat] && got != "":
			t.Errorf("%s: %s was deleted and is there: %q", what, at, got)
		case !w.gone[chat] && got != words:
			if perhaps, ok := w.maybe[at]; !ok || perhaps != got {
				t.Errorf("%s: %s is %q, and %q was acknowledged", what, at, got, words)
			}
		}
	}
	for at, words := range there {
		w.words[at], w.seqs[at] = words, seqs[at]
	}
	m := o.f.disk.(*mem)
	for name, i := range m.names {
		for at, words := range w.words {
			chat, _, _ := strings.Cut(at, "/")
			if w.gone[chat] && words != "" && strings.Contains(string(i.data), "\""+words+"\"") {
				t.Errorf("%s: %s still has a word of %s", what, name, at)
			}
		}
	}
}
