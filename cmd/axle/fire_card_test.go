//go:build cgo && !fake && !scripted && linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl/native"
)

// TestCardTaken (D15): a card whose memory another process holds, or left taken, is named at the
// start and in the error of what does not fit.
func TestCardTaken(t *testing.T) {
	u := newUnit(t)
	p := u.start("AXSIM_CMM_USED=7038")
	p.until("says so", func() bool { return strings.Contains(p.said(), "another process holds the card") })
	path, body := question(0, prompts[0])
	if o := ask(context.Background(), http.DefaultClient, p.url+path, body); o.end != endRefused ||
		!strings.Contains(o.detail, "another process holds the card") {
		t.Errorf("%+v", o)
	}
	if c := p.stop(); c != 0 {
		t.Errorf("exit code %d", c)
	}
	p.quiet()
}

// TestHotCard (D14, D8): under sixteen streams a hot card is warned of, in log and health, and goes
// on. At 120 °C it resets itself. The server notices without any request, and ends the
// process with 75.
func TestHotCard(t *testing.T) {
	//proves:D8 while nothing runs
	//proves:D14
	unraced(t)
	t.Parallel()
	u := newUnit(t)
	p := u.start("AXSIM_TEMPERATURE=88")
	right := goldens(t, p)
	stop := make(chan struct{})
	all := make(chan []outcome, 1)
	go func() { all <- streams(p, right, stop) }()
	p.until("answers", func() bool { return p.metric("axle_running") >= 8 })
	p.pause.Store(int64(time.Second / 2)) // the degrees are read every ten seconds
	p.until("warned", func() bool { return strings.Contains(p.said(), "the card is hot") })
	resp, err := http.Get(p.url + "/health")
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if !strings.Contains(string(b), `"temperature_celsius":88`) || !strings.Contains(string(b), `"warning":"the card is hot`) {
		t.Errorf("health: %s", b)
	}
	allWhole(t, p, stop, all)
	p = u.start("AXSIM_CLOCK=real", "AXSIM_PROFILE=pi5,load 0,call * 0ns", "AXSIM_TEMPERATURE=88,121@2s")
	if c := p.code(); c != 75 {
		t.Errorf("exit code %d, want %d", c, 75)
	}
	p.quiet()
}

// TestHeatStops (D14): from 100 °C on what runs ends well and nothing new begins: it waits, and who
// finds the queue full gets 503 with Retry-After. At 95 it is still so; at 89 all that waited is
// answered right. /health has the degrees throughout.
func TestHeatStops(t *testing.T) {
	//proves:D14
	t.Parallel()
	heat := filepath.Join(t.TempDir(), "heat")
	degrees := func(n int) {
		if err := os.WriteFile(heat, []byte(strconv.Itoa(n)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	degrees(88)
	u := newUnit(t, "--device", "axcl", "--max-queue", "20")
	p := u.start("AXSIM_TEMPERATURE=file:" + heat)
	right := goldens(t, p)
	reads := func(n float64) func() bool {
		return func() bool {
			page := p.healthPage()
			return len(page.Models) == 1 && page.Models[0].warns(n) && len(page.Cards) == 1 && page.Cards[0].warns(n)
		}
	}
	stands := func() bool { return p.metric("axle_running") == 0 && p.metric("axle_queued") == 16 }
	stop := make(chan struct{})
	all := make(chan []outcome, 1)
	go func() { all <- streams(p, right, stop) }()
	p.until("answers", func() bool { return p.metric("axle_running") >= 8 })
	p.pause.Store(int64(time.Second / 2)) // the degrees are read every ten seconds
	degrees(104)
	p.until("says that it is hot", reads(104))
	p.until("stands still", stands)
	more := make(chan outcome, 8)
	for range cap(more) {
		go func() { more <- p.say("pocket") }()
	}
	for range 4 {
		if o := <-more; o.end != endRefused || o.code != 503 || o.after == "" {
			t.Errorf("with a full queue: %+v", o)
		}
	}
	degrees(95)
	p.until("has cooled a little", reads(95))
	if code, _ := p.health(); code != 200 || p.metric("axle_running") != 0 || p.metric("axle_queued") != 20 {
		t.Errorf("at 95 °C: health %d, %v run, %v wait", code, p.metric("axle_running"), p.metric("axle_queued"))
	}
	degrees(89)
	for range 4 {
		if o := <-more; o.end != endWhole || o.text != right[prompts[0]] {
			t.Errorf("it waited: %+v", o)
		}
	}
	allWhole(t, p, stop, all)
}

// healthHeat is what /health says of the heat of a card, or of the card of a model.
type healthHeat struct {
	Temperature float64 `json:"temperature_celsius"`
	Warning     string
}

func (h healthHeat) warns(degrees float64) bool { return h.Temperature == degrees && h.Warning != "" }

// healthPage is what /health says of that.
func (p *process) healthPage() (page struct{ Cards, Models []healthHeat }) {
	p.t.Helper()
	resp, err := http.Get(p.url + "/health")
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
		p.t.Error(err)
	}
	return page
}

// TestCardShared (D15): a second server on a card on which sixteen streams of a first one run. What
// does not fit is refused, with the reason at the start and in the error; the streams go on. The
// first one killed, its memory stays taken for a while and is named too; when the driver has
// noticed the second one serves.
func TestCardShared(t *testing.T) {
	//proves:D15
	unraced(t)
	u := newUnit(t)
	u.remember()
	p := u.start()
	right := goldens(t, p)
	need := int(p.metric("axle_card_memory_bytes")-p.metric("axle_card_memory_free_bytes"))>>20 - 18 // of it 18 MiB are the card's own
	if c := p.stop(); c != 0 {
		t.Errorf("exit code %d", c)
	}
	const own = 256 // what a card may have in use by itself without being remarked on
	env := []string{"AXSIM_HAZARDS=strict,-wedge", fmt.Sprintf("AXSIM_CMM_USED=%d", own), fmt.Sprintf("AXSIM_CMM=%d", own+need+need/2+1)}
	p = u.start(env...)
	p.says("pocket", right)
	if strings.Contains(p.said(), "another process") {
		t.Errorf("alone on the card:\n%s", p.said())
	}
	v := newUnit(t)
	v.state = u.state
	const taken = "another process holds the card, or one died and its memory was not released"
	p.underStreams(right, func() {
		q := v.start(env...)
		q.until("says so", func() bool { return strings.Contains(q.said(), taken) })
		q.refused("pocket", taken)
		if c := q.stop(); c != 0 {
			t.Errorf("exit code %d", c)
		}
		q.quiet()
	})
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.gone
	q := v.start(env...)
	q.until("says so", func() bool { return strings.Contains(q.said(), taken) })
	q.refused("pocket", taken)
	// The driver notices: what is held for half a minute and longer is let go.
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(u.state, fmt.Sprintf("card.%d", p.cmd.Process.Pid)), long, long); err != nil {
		t.Fatal(err)
	}
	q.until("serves", func() bool { return q.say("pocket").text == right[prompts[0]] })
	if c := q.stop(); c != 0 {
		t.Errorf("exit code %d", c)
	}
	q.quiet()
}

// TestCardExclusive (D15): a card that only one process may have. A benchmark and the suite ask the
// server that has it, before they open anything, and say what to do; where they cannot ask, the
// card refuses them, and the error says so. The server's answers go on right, and once it has ended
// the benchmark runs.
func TestCardExclusive(t *testing.T) {
	//proves:D15
	unraced(t)
	t.Parallel()
	u := newUnit(t)
	u.remember()
	p := u.start("AXSIM_HAZARDS=strict,exclusive")
	first := p.say("pocket")
	env := []string{native.EnvAXCL + "=" + u.lib, "AXSIM_HAZARDS=strict,exclusive", "AXSIM_STATE=" + u.state, "AXSIM_ROOT=" + t.TempDir()}
	bench := []string{"bench", pocketDir(t), "--device", "axcl", "-p", "8", "-n", "2", "-r", "1", "-c", "1"}
	for _, args := range [][]string{bench, {"doctor", "--device", "axcl", "--conformance"}} {
		_, said, code := axleAlone(t, append(env, "AXLE_HOST="+u.addr), args...)
		if code == 0 || !strings.Contains(said, p.url+" holds the card (axcl:0)") || !strings.Contains(said, "systemctl stop axle") {
			t.Errorf("%v beside the server: %d %s", args, code, said)
		}
	}
	_, said, code := axleAlone(t, append(env, "AXLE_HOST=127.0.0.1:1"), bench...)
	if code == 0 || !strings.Contains(said, "0x80300106") || !strings.Contains(said, "another process") {
		t.Errorf("on a card that another has: %d %s", code, said)
	}
	if o := p.say("pocket"); o.end != endWhole || o.text != first.text {
		t.Errorf("the server's answer: %+v, before it was %+v", o, first)
	}
	if c := p.stop(); c != 0 {
		t.Errorf("exit code %d", c)
	}
	p.quiet()
	out, said, code := axleAlone(t, append(env, "AXLE_HOST="+u.addr), bench...)
	if code != 0 || !strings.Contains(out, "pocket") {
		t.Errorf("afterwards: %d %s %s", code, out, said)
	}
}

const (
	testBus  = "AXLE_TEST_BUS" // the process sees a PCIe bus of its own, with the simulated card on it
	testCard = "/sys/bus/pci/devices/0001:01:00.0"
)

// ownBus makes that bus.
func ownBus() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("no bus: %w", err)
	}
	if err := syscall.Mount("tmpfs", "/sys", "tmpfs", 0, "size=1m"); err != nil {
		return fmt.Errorf("no bus: %w", err)
	}
	if err := os.MkdirAll(testCard, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(testCard+"/vendor", []byte("0x1f4b\n"), 0o644); err != nil {
		return err
	}
	return os.WriteFile(testCard+"/config", []byte{0x4b, 0x1f, 0x50, 0x06}, 0o644)
}

// TestOffTheBus (D8): under sixteen streams the card's configuration space reads all ones, while
// the library says nothing. The bus is looked at every second; then all is as when the library had
// said it.
func TestOffTheBus(t *testing.T) {
	//proves:D8
	u := newUnit(t)
	u.apart(testBus + "=1")
	p := u.start(testBus + "=1")
	right := goldens(t, p)
	allowed := late(p.gone)
	health := p.watch()
	said := p.metric("axle_output_tokens_total")
	all := make(chan []outcome, 1)
	go func() { all <- streams(p, right, nil) }()
	p.until("answers", func() bool { return p.metric("axle_output_tokens_total") >= said+64 })
	gone := time.Now()
	if err := os.WriteFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "root", testCard, "config"),
		[]byte{0xff, 0xff, 0xff, 0xff}, 0o644); err != nil {
		t.Fatal(err)
	}
	code := p.code()
	first, last, broken := times(<-all)
	if code != 75 || broken == 0 {
		t.Fatalf("exit code %d, want 75; %d streams were told", code, broken)
	}
	if d := last.Sub(gone); d > allowed(2*time.Second) {
		t.Errorf("the last stream ended %v after the loss", d)
	}
	(<-health).told(t, first, allowed)
	if d := p.ended.Sub(gone); d > allowed(6*time.Second) {
		t.Errorf("the process ended %v after the loss", d)
	}
	p.quiet()
}

// allWhole ends the streams and the process in order: every answer must be whole.
func allWhole(t *testing.T, p *process, stop chan struct{}, all <-chan []outcome) {
	t.Helper()
	close(stop)
	for _, o := range <-all {
		if o.end != endWhole {
			t.Errorf("%+v", o)
		}
	}
	if c := p.stop(); c != 0 {
		t.Errorf("exit code %d", c)
	}
	p.quiet()
}
