package axle

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// rules are lines of the code that keep a promise of docs/promises.md. With the line changed so, the named test must fail: `make rules`
// does that, one by one, in an overlay that touches no file. The race between the list and the code is kept by every run: each line must
// be there.
var rules = []struct{ row, file, rule, without, pkg, test string }{
	{"D1", "axcl/cards/cards.go", `d, err := openSoft("")`, `err := cardErr`, "./cmd/axle", "TestNoCard"},
	{"D1", "server/server.go", "\tcase none != nil:", "\tcase false:", "./server", "TestNoDevice"},
	{"D1", "axcl/cards/nodes.go", "if !me.opens(o) {", "if false {", "./axcl/cards", "TestNodes"},
	{"D1", "axcl/cards/nodes.go", "if installed && !s.allows(node) {", "if false {", "./axcl/cards", "TestNodes"},
	{"D1", "axcl/cards/doctor.go", "r.Findings[i].State = Note", "_ = i", "./cmd/axle", "TestDoctorOneProblem"},
	{"D2", "axcl/native/model.go", "err = d.noteMemory(worse(err, m.abandon()), free)", "err = d.noteMemory(err, free)", "./axcl/native",
		"TestLoadFails"},
	{"D3", "engine/open.go", "if info.TotalCMM > 0 && need > info.FreeCMM {", "if info.TotalCMM < 0 {", "./engine", "TestNoRoom"},
	{"D3", "engine/open.go", "			me.Never = least > me.Most\n", "			_ = least\n", "./engine", "TestNever"},
	{"D3", "server/loaded/models.go", "if foreseen && me.Never {", "if false {", "./server/loaded", "TestNeverFits"},
	{"D3", "axcl/soft/soft.go", "free > 0 && allocate > free", "free > 0 && allocate < 0", "./axcl/soft", "TestMoreThanTheHost"},
	{"D3", "engine/open.go", "if info.Host && info.TotalMem > 0 && need > info.FreeMem {", "if info.Host && false {", "./engine",
		"TestHostRoom"},
	{"D3", "models/info.go", "m.Load = max(m.Card, p.loading())", "m.Load = max(m.Card, p.loading()*0)", "./models",
		"TestMemoryWhileLoading"},
	{"D3", "models/info.go", "			if l.Shares {", "			if false {", "./models", "TestGemma4$"},
	{"D3", "models/info.go", "m.Card += m.Encoder", "m.Card += 0 * m.Encoder", "./models", "TestMemoryOfEncoder"},
	{"D3", "axcl/native/layout.go", "cmp.Compare(f.sizes[b], f.sizes[a]); c != 0", "cmp.Compare(f.sizes[b], f.sizes[a]); false && c != 0",
		"./axcl/native", "TestLoadOrder"},
	{"D3", "server/loaded/models.go", "again = again || !foreseen", "_ = foreseen", "./server/loaded", "TestHost"},
	{"D3", "server/loaded/models.go", " || ms.loading > 0", "", "./server/loaded", "TestHostHammer"},
	{"D4", "engine/card.go", "if len(c.fails) >= 3 {", "if len(c.fails) >= 300 {", "./engine", "TestExecuteFails"},
	{"D4", "engine/turn.go", "if s.usage.Output == 0 && !s.retried {", "if s.retried {", "./engine", "TestExecuteFails"},
	{"D4", "engine/spoiled.go", "	err := m.clear(cells)\n	m.giveBack", "	var err error\n	m.giveBack", "./engine",
		"TestFailedCellsCleared"},
	{"D5", "axcl/error.go", "id == 8, id == 9, id == 0x0a:", "id == 8, id == 9:", "./axcl/native", "TestFatalAgrees"},
	{"D5", "engine/turn.go", "	if axcl.Fatal(err) {\n		m.giveBack()\n		return err\n	}\n	if err := m.card",
		"	if err := m.card", "./engine", "TestFatal$"},
	{"D6", "engine/prove.go", "if wrong > sampleLen/4 {", "if wrong > sampleLen {", "./engine", "TestCheckup|TestRemembered"},
	{"D6", "engine/answers.go", "ok = len(r.Said) == 1 || mine.Loads >= 2", "ok = len(r.Said) == 1", "./engine", "TestFirstLoadWrong"},
	{"D6", "engine/answers.go", "			ok = false", "			_ = s", "./engine", "TestFirstLoadWrong"},
	{"D6", "server/loaded/models.go", "	case errors.Is(err, engine.ErrWrong):", "	case false:", "./server", "TestComparedIsTold"},
	{"D6", "engine/prove.go", "		m.cells.forget() // such a card", "		// such a card", "./engine", "TestCheckupInOrder"},
	{"D6", "engine/card.go", "now-m.checked >= c.o.Check", "now < 0", "./engine", "TestCheckup"},
	{"D6", "engine/spoiled.go", "	if !found.alike {", "	if false {", "./engine", "TestSpoiledStrikes|TestUsableAfterFaults"},
	{"D6", "engine/spoiled.go", "return m.card.strike(found.bad)", "return nil", "./engine", "TestSpoiledStrikes"},
	{"D6", "engine/turn.go", "} else if id == 0 {", "} else if false {", "./engine", "TestZeroIsLookedAt"},
	{"D6", "engine/lm.go", "		err = m.lookKnown()", "		_ = m.lookKnown", "./engine", "TestKnownRow$"},
	{"D6", "models/embed.go", "if v&0x7f80 == 0x7f80 {", "if v == 1 {", "./models", "TestEmbeddingsSound"},
	{"D7", "engine/card.go", "c.enter(max(c.o.Watch, 20*expect))", "c.enter(3 * max(c.o.Watch, 20*expect))", "./engine", "TestHang$"},
	{"D7", "engine/card.go", "	c.enter(c.o.Watch)\n	go c.work", "	c.enter(3 * c.o.Watch)\n	go c.work", "./engine",
		"TestHangAtOpen"},
	{"D7", "engine/card.go", "	c.enter(c.o.Watch)\n	defer c.exit()\n	return m.Close()", "	return m.Close()", "./engine",
		"TestHangAtClose"},
	{"D7", "engine/pace.go", "max(p.c.o.Watch, 10*expect)", "max(p.c.o.Watch, fileLimit)", "./engine", "TestLoadHangs"},
	{"D7", "models/store/store.go", "d >= workTime", "d >= time.Hour", "./models/store", "TestRests"},
	{"D7", "models/store/guard.go", "s.check(withRests(ctx), ", "s.check(ctx, ", "./models/store", "TestGuardRests"},
	{"D8", "engine/card.go", "n%10 == 0 && c.Err() == nil", "false && c.Err() == nil", "./engine", "TestLinkSeen"},
	{"D8", "engine/card.go", "axcl.Fatal(err) || errors.Is(err, axcl.ErrNoDevice)", "axcl.Fatal(err)", "./engine", "TestNoLongerThere"},
	{"D8", "axcl/native/device.go", `return err == nil && id == [2]byte{0xff, 0xff}`, `return false && id == [2]byte{0xff, 0xff}`,
		"./axcl/native", "TestLinkGone"},
	{"D10", "server/server.go", "s.active.Load() > 0 && time.Now()", "false && time.Now()", "./server", "TestDrain"},
	{"D10", "server/server.go", "<-time.After(drainLinger)", "", "./server", "TestDrainDoor"},
	{"D10", "server/drain.go", "s.leaving.Store(true)", "s.draining.Store(true)", "./server", "TestDrainDelay$"},
	{"D10", "server/drain.go", "time.Now().Before(end) && s.Lost() == nil", "time.Now().Before(end)", "./server", "TestDrainDelayEnds"},
	{"D11", "models/store/pull.go", `return fmt.Errorf("models: %s cannot be written`,
		`_ = p.s.disk.Remove(key); return fmt.Errorf("models: %s cannot be written`, "./cmd/axle", "TestFullDisk"},
	{"D11", "models/rows/rows.go", "	case errors.Is(err, errFull) && !d.closed.Load():", "	case false:", "./models/rows",
		"TestFullDiskPasses"},
	{"D11", "models/store/blobs.go", "lacks > 0 && r.s.yield(lacks) < lacks {", "lacks > 0 {", "./models/store", "TestGiveWay"},
	{"D12", "models/store/guard.go", "unclean = s.disk.Remove(e.Name()) == nil || unclean", "_ = s.disk.Remove(e.Name())", "./models/store",
		"TestGuard$"},
	{"D12", "models/store/store.go", "if err := m.s.soundBlob(blobPath(f), st); err != nil {",
		"if err := m.s.soundBlob(blobPath(f), st); false {", "./models/store", "TestGuard$"},
	{"D13", "models/store/pull.go", "if err := w.Sync(); err != nil {", "if err := error(nil); err != nil {", "./models/store",
		"TestCrashImages"},
	{"D13", "models/store/pull.go", "p.s.unsynced.Store(key, true)", "_ = key", "./models/store", "TestDiskErrors"},
	{"D12", "models/rows/rows.go", " && hmac.Equal(sum[:], s.sum(head, parts))", "", "./models/rows", "TestDamagedRows"},
	{"G20", "engine/keptstate.go", "f.at += len(piece); f.at < len(state) {", "f.at += len(piece); false {", "./engine",
		"TestStatesOnDiskFaults"},
	{"D13", "models/rows/rows.go", "		err = f.Sync()\n", "		err = nil\n", "./models/rows", "TestRowsLast"},
	{"D13", "models/rows/rows.go", "	return d.SyncDir(dir)\n", "	return nil\n", "./models/rows", "TestRowsLast"},
	{"D14", "engine/card.go", "c.hot = info.Temperature > coolAt", "c.hot = info.Temperature >= hotAt", "./engine", "TestHeat"},
	{"D15", "engine/card.go", "c.foreign = c.info.TotalCMM - c.info.FreeCMM; c.foreign", "c.foreign = 0; c.foreign", "./cmd/axle",
		"TestCardTaken"},
	{"D16", "engine/card.go", "	runtime.LockOSThread()\n", "	_ = runtime.LockOSThread\n", "./cmd/axle", "TestOrderlyEnd"},
	{"D17", "cmd/axle/main.go", "out, err := cards.OwnStdout()", "out, err := &cards.Stdout{File: os.Stdout}, error(nil)", "./cmd/axle",
		"TestJSONUnderNoise"},
	{"D17", "axcl/cards/stdout_native.go", "if err := unix.Dup3(2, 1, 0); err != nil {", "if err := error(nil); err != nil {",
		"./axcl/cards", "TestOwnStdout$"},
	{"D17", "axcl/native/table_axcl.c", "CALL(c, axclInit, quiet);", "CALL(c, axclInit, quiet + sizeof quiet - 1);", "./axcl/native",
		"TestQuietInit"},
	{"G6", "engine/lm.go", "case len(m.queue) >= m.maxQueue:", "case false:", "./engine", "TestQueueFull"},
	{"G7", "engine/backend.go", "		defer b.m.forgetCaller(s)\n", "", "./engine", "TestCancel"},
	{"G8", "models/store/pull.go", "size == f.Size && (f.Digest.IsZero() || d == f.Digest)", "size == f.Size", "./models/store",
		"TestPullFaults"},
	{"G9", "models/store/change.go", "	if err == nil {\n		err = f.Sync()\n	}\n	if cerr", "	if cerr", "./models/store",
		"TestCrashImages"},
	{"G9", "models/store/change.go", "s.walk(s.disk.SyncDir)", "s.manifests()", "./models/store", "TestDiskErrors"},
	{"G9", "models/store/change.go", `for dir := path.Dir(p); dir != "."; {`, `for dir := path.Dir(p); dir == "?"; {`, "./models/store",
		"TestDiskErrors"},
	{"G10", "cmd/axle/service.go", "code: exitLost", "code: 1", "./cmd/axle", "TestHotCard"},
	{"G11", "engine/card.go", "max(c.o.Watch, 20*expect)", "c.o.Watch", "./engine", "TestJitter"},
	{"G12", "axcl/soft/kernel/kernel_amd64.go", "mode |= resume", "mode |= 0", "./axcl/soft/kernel", "TestMul$"},
	{"G12", "engine/seq.go", "	s.see[n/64] |= 1 << (n % 64)\n	if s.near", "	if s.near", "./engine", "TestSameTokens$"},
	{"G12", "engine/given.go", "m.given.Row(p.Given[r*n:][:n], id, row)", "m.given.Row(p.Given[r*n:][:n], id/2, row)", "./engine",
		"TestGiven$"},
	{"G12", "engine/given.go", "	if row, ok := g.rows[id]; ok {", "	if row, ok := g.rows[id&^1]; ok {", "./engine", "TestGivenKept"},
	{"G12", "engine/slots.go", "	case !unsent:\n		m.leave(s)\n", "	case !unsent:\n", "./engine", "TestStatesFaults"},
	{"G14", "engine/plan.go", "m.taken, ok = m.cells.takeAt(m.taken[:0], h.from, rows)",
		"m.taken, ok = m.cells.take(m.taken[:0], rows, 0, false)", "./engine", "TestRepeatable$"},
	{"G14", "engine/lm.go", "case s.whole() || s.solo:", "case s.whole():", "./engine", "TestRepeatable$"},
	{"G14", "engine/admit.go", "!m.proven.Scatter && live > 0 || m.soloing() {", "!m.proven.Scatter && live > 0 {", "./engine",
		"TestRepeatableIsNotPassed"},
	{"G14", "engine/cells.go", "from := runIn(free, n, above)", "from := runIn(free, n, 0)", "./engine", "TestRowsAscend"},
	{"G14", "engine/prove/alike.go", "a.Ordered = a.Ordered && equal", "_ = equal", "./engine", "TestAlikeElsewhere"},
	{"G17", "engine/slots.go", " || s.solo || s.bring > 0 {", " || s.solo {", "./engine", "TestStatesLeft"},
	{"G17", "engine/snap.go", "if s.coming += n; s.coming < len(state) {", "if s.coming += n; false {", "./engine", "TestStatesInMemory$"},
	{"G17", "engine/tier.go", "n = t.out.most(cells, t.piece)", "n = len(cells)", "./engine", "TestTierGap"},
	{"G17", "engine/admit.go", "s.bring = m.inMemory(s)", "_ = m.inMemory", "./engine", "TestTurns"},
	{"G20", "engine/admit.go", "		if m.fetch(s) {\n", "		if false {\n", "./engine", "TestRestartSoon"},
	{"G18", "engine/admit.go", "if m.moves() && need > 0 && rows > 0 {", "if false {", "./engine", "TestMoves$"},
	{"G18", "engine/move.go", "		s.shift(now)\n", "		_ = s\n", "./engine", "TestMovesSameTokens"},
	{"G18", "engine/move.go", "back, m.costs.move = to, travel{}", "back = to", "./engine", "TestMoveFails"},
	{"G25", "engine/plan.go", "m.claim(h) {", "false && m.claim(h) {", "./engine", "TestDay$"},
	{"G25", "engine/reserve.go", "			price += run\n", "			price += 0 * run\n", "./engine", "TestPlaceRuns"},
	{"G25", "engine/cells.go", "c.prune(oldest, c.size())", "c.prune(oldest, 32)", "./engine", "TestCellsEvict"},
	{"G25", "engine/reserve.go", " && f.from != s.from+s.n && ", " && ", "./engine", "TestCellsBetween"},
	{"G16", "engine/admit.go", "	far := m.beyond(s)\n", "	far := 0 * m.beyond(s)\n", "./engine", "TestNeverWorse$"},
	{"G16", "engine/admit.go", "} else if r.pending() > 1 && r.down {", "} else if false {", "./engine", "TestNeverWorse$"},
	{"G16", "engine/plan.go", "low := false, m.cells.availableBelow(m.wideReach)", "low := false, 1<<20", "./engine", "TestNeverWorse$"},
	{"G16", "engine/plan.go", "	if len(m.shares) == 1 && m.wide > 0 &&", "	if m.wide < 0 &&", "./engine", "TestNeverWorse$"},
	{"G16", "engine/plan.go", "		if same >= twinRows {", "		if same >= 1 {", "./engine", "TestNeverWorse$"},
	{"G16", "engine/tier.go", "		if m.ledger.lost > tithe*m.ledger.done {", "		if false {", "./engine", "TestNeverWorse$"},
	{"G19", "engine/gallery.go", "s.ids[i] = p.first - int32(n)", "s.ids[i] = -2 - int32(n)", "./engine", "TestSight$"},
	{"G19", "engine/gallery.go", "h.Write(name[:])", "_ = name", "./engine", "TestManySee"},
	{"G19", "engine/gallery.go", "g.last, g.full = none, true", "g.last = none", "./engine", "TestPictureNumbers"},
	{"G19", "engine/gallery.go", "h.Write([]byte(key))", "_ = key", "./engine", "TestPictureKeys"},
	{"G19", "engine/replicas.go", "\t\treturn sum[:]\n", "\t\treturn sum[:0]\n", "./engine", "TestReplicasSee"},
	{"G19", "engine/gallery.go", "if _, answer := m.turns(s.ids); answer > 0 {", "if false {\n\t\tanswer := 0", "./engine",
		"TestShiftTurns"},
	{"G19", "engine/lm.go", "if len(m.pass.Add) == 0 {", "if true {", "./engine", "TestPictureCosts"},
	{"G21", "vision/write.go", "+column/2)*2+row%2)*2 + column%2", "+column/2)*2+column%2)*2 + row%2", "./vision", "TestQwenOrder"},
	{"G21", "vision/resize.go", "var r, g, b int64 = 1 << (places - 1), 1 << (places - 1), 1 << (places - 1)", "var r, g, b int64",
		"./vision", "TestGoldenSizes"},
	{"G21", "vision/paint.go", "backX := h.Orientation == 2 ||", "backX :=", "./vision", "TestGoldenPictures"},
	{"G21", "axcl/soft/encoder.go", "			e.pixels[i] = value(b)\n",
		"			at := i - i%3\n			e.pixels[i] = value(max(b, picture[at], picture[at+1], picture[at+2]))\n", "./axcl/soft",
		"TestEncoderStrict"},
	{"G21", "axcl/native/model.go", "if m.narrow && rows == 1 && (p.Pos[1]", "if false && rows == 1 && (p.Pos[1]", "./axcl/native",
		"TestOraclePictures"},
	{"G21", "engine/eyesight.go", "d <= min(0.1, away/2)", "d >= 0", "./engine", "TestProbesFind"},
	{"G22", "engine/open.go", "if err := checkLent(ctx, dev, p, info); err != nil {", "if err := checkLent(ctx, dev, p, info); false {",
		"./engine", "TestGivenUnsound"},
	{"G22", "engine/prove.go", "if err := m.checkGiven(ctx, p.Name); err != nil {", "if err := m.checkGiven(ctx, p.Name); false {",
		"./engine", "TestGivenUnsound"},
	{"G23", "engine/prove.go", "if !sound || m.slots != nil && !m.proven.Chunk {", "if sound && false {", "./engine", "TestWideProven"},
	{"G23", "engine/prove/prove.go", "if head && !m.Shape.Whole && m.Shape.Out > 0 {", "if false {", "./engine", "TestWideProven"},
	{"G23", "engine/prove.go", "if got.as(kept.Together) {", "if got != nil {", "./engine", "TestWideShortProof"},
	{"G23", "engine/prove/prove.go", "min(most, max(m.narrow()-1, 2))", "most", "./engine", "TestFewRows$"},
	{"G13", "axcl/soft/soft.go", "look(&m.see, n, most, p.SeeCells, p.SeeRows)",
		"look(&m.see, n, most, p.SeeCells, make([]uint64, len(p.SeeRows)))", "./axcl/axcltest", "TestSoft$"},
	{"G13", "internal/diagnosis/baseline.go", "less(*c.Card, *was.Card)", "false", "./internal/diagnosis", "TestBaselineCompare"},
	{"G13", "axcl/axcltest/exact.go", "f.Card = max(f.Card, distance(card[", "f.Card = max(f.Card, 0*distance(card[", "./axcl/axcltest",
		"TestExactFigures"},
	{"G13", "axcl/soft/linear.go", "rows := present(get16(in[\"mask\"]))", "rows := g.Rows", "./axcl/soft", "TestLinearChunk"},
	{"G24", "models/plan.go", "p.configure, p.recognise, ", "p.configure, ", "./models", "TestKinds$"},
	{"G24", "axmodel/shape.go", "if err := m.unbound(i); err != nil {", "if err := m.unbound(i); err != nil && false {", "./models",
		"TestUnboundInput"},
	{"G24", "models/store/pull.go", "if !p.whole { // what", "if false { // what", "./models/store", "TestPullKinds"},
	{"G24", "server/manage/list.go", "if e.Says() != \"\" {", "if false {", "./cmd/axle", "TestKindsAreTold"},
}

// TestRules: see rules. AXLE_TEST_RULES runs them, all or those of the rows it names; without it only the lines are looked for.
func TestRules(t *testing.T) {
	rows := os.Getenv("AXLE_TEST_RULES")
	for _, r := range rules {
		t.Run(r.row+" "+r.test, func(t *testing.T) {
			b, err := os.ReadFile(r.file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(b), r.rule); n != 1 {
				t.Fatalf("%s has the line %d times: %s", r.file, n, r.rule)
			}
			if rows == "" || rows != "all" && !strings.Contains(","+rows+",", ","+r.row+",") {
				return
			}
			dir := t.TempDir()
			changed, overlay := filepath.Join(dir, filepath.Base(r.file)), filepath.Join(dir, "overlay.json")
			full, err := filepath.Abs(r.file)
			if err != nil {
				t.Fatal(err)
			}
			o, _ := json.Marshal(map[string]map[string]string{"Replace": {full: changed}})
			if err := os.WriteFile(overlay, o, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(changed, []byte(strings.Replace(string(b), r.rule, r.without, 1)), 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("go", "test", "-vet=off", "-tags", "nomsgpack", "-count=1", "-failfast", "-timeout", "2m", "-overlay",
				overlay, "-run", r.test, r.pkg).CombinedOutput()
			switch {
			case err == nil:
				t.Errorf("without the rule in %s nothing fails: %s", r.file, r.rule)
			case strings.Contains(string(out), "[build failed]") || strings.Contains(string(out), "setup failed"):
				t.Fatalf("it does not build:\n%s", out)
			}
		})
	}
}
