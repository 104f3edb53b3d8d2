package axle

// The rules behind the threats, T1 to T18; what only a law, a library or a file keeps (T12, T13, T15, the unit of T18) has no line
// that could be taken out.
func init() {
	rules = append(rules, []struct{ row, file, rule, without, pkg, test string }{
		{"T1", "axmodel/soft.go", "if !inside(off, int64(rows)*int64(cols)*e.Type.bytes()) {", "if false {", "./axmodel", "TestHostileFiles"},
		{"T1", "axmodel/vendor.go", "if n > uint64(end-fl.at) {", "if false {", "./axmodel", "TestHostileFiles"},
		{"T1", "models/embed.go", "if vocab < 1 || vocab > maxVocab || size != vocab*row {", "if false {", "./models", "TestMalformed"},
		{"T1", "axcl/native/layout.go", "if !l.Equal(f.layer) {\n\t\treturn fmt.Errorf(\"axcl: %w: %s: the card sees", "if false {\n\t\treturn fmt.Errorf(\"axcl: %w: %s: the card sees", "./axcl/native", "TestOddLibrary"},
		{"T2", "tokenizer/tokenizer.go", "func(int, int) bool { return specials })", "func(int, int) bool { return true })", "./tokenizer", "TestNoControl"},
		{"T3", "server/ollama/options.go", "if !(f >= lim[0] && f <= lim[1]) {", "if false {", "./server", "TestNumbers"},
		{"T3", "server/ollama/options.go", "if err := o.Sampling.Check(); err != nil {", "if err := o.Sampling.Check(); err != nil && false {", "./server", "TestNumbers"},
		{"T4", "server/guard.go", "\tif !host {", "\tif !host && false {", "./server", "TestGuardMatrix"},
		{"T5", "server/guard.go", "if g.cross.Check(r) != nil {", "if g.cross.Check(r) != nil && false {", "./server", "TestCrossOrigin"},
		{"T5", "server/guard.go", "func (g *guard) allows(from string) bool {\n\tif g.any {", "func (g *guard) allows(from string) bool {\n\tif true {", "./server", "TestGuardMatrix"},
		{"T6", "server/guard.go", "if name, ok := g.keys.Check(r); !ok {", "if name, ok := g.keys.Check(r); !ok && false {", "./server", "TestKeys"},
		{"T6", "server/manage.go", "if s.o.NoDelete {", "if s.o.NoDelete && false {", "./server", "TestSwitches"},
		{"T7", "server/body.go", "if err == nil && w.Cost() > freeCost {", "if false {", "./server", "TestMemoryBounded"},
		{"T7", "server/ollama/weigh.go", "case w.Parts > MaxParts:", "case false:", "./server/ollama", "TestWeigh"},
		{"T7", "server/ollama/weigh.go", "case w.Text > MaxText:", "case false:", "./server/ollama", "TestWeigh"},
		{"T7", "server/body.go", "if s.large.Add(n-held) > maxLarge && n > held {", "if false {", "./server", "TestLargeBodies"},
		{"T7", "server/ollama/weigh.go", "if depth++; depth > MaxDepth {", "if depth++; false {", "./server/ollama", "TestDepth"},
		{"T7", "server/body.go", "if len(list) > maxImages {", "if false {", "./server", "TestLimits"},
		{"T7", "server/body.go", "if int64(w)*int64(h) > maxPixels {", "if false {", "./server", "TestLimits"},
		{"T7", "server/body.go", `enc != "" && enc != "identity"`, `enc == "never"`, "./server", "TestLimits"},
		{"T8", "server/server.go", "\t\tReadHeaderTimeout: s.o.HeaderTimeout,\n", "", "./server", "TestDeadlines"},
		{"T8", "server/guard.go", "if r.ContentLength != 0 {", "if false {", "./server", "TestDeadlines"},
		{"T14", "server/told.go", "return f.Plain()", "return f.Error()", "./server", "TestLogWords"},
		{"T17", "server/vendorapi.go", "\ter.Key = keyOf(ctx)\n", "", "./server", "TestKeyReachesEngine"},
		{"T8", "server/stream.go", "func (r *reply) deadline() { _ = r.rc.SetWriteDeadline(time.Now().Add(r.timeout)) }", "func (r *reply) deadline() { _ = r.rc.SetWriteDeadline(time.Time{}) }", "./server", "TestWriteDeadline"},
		{"T9", "models/name.go", "\tif !n.IsFullyQualified() {\n\t\treturn Name{}, ErrName\n\t}\n\t// The defaults", "\t// The defaults", "./models/store", "TestHostileNames"},
		{"T17", "engine/cells.go", "\tr, ok := c.keys[key]", "\tkey = \"\"\n\tr, ok := c.keys[key]", "./engine", "TestKeysApart"},
		{"T11", "models/hub/client.go", `if c.Token != "" && u.Scheme == home.Scheme && strings.EqualFold(u.Host, home.Host) {`, `if c.Token != "" && home.Host != "" {`, "./models/hub", "TestToken"},
		{"T10", "models/store/pull.go", "if size == f.Size && (f.Digest.IsZero() || d == f.Digest) && (f.Git == \"\" || git == f.Git) {", "if d = f.Digest; size == f.Size {", "./models/store", "TestPullFaults"},
		{"T14", "server/told.go", "return clip(plainly(err))", "return clip(err.Error())", "./server", "TestLog"},
		{"T14", "server/keys.go", `func (Secret) String() string { return "***" }`, "func (s Secret) String() string { return string(s) }", "./server", "TestKeys"},
		{"T14", "server/infer.go", "\tif !s.o.LogPrompts {\n\t\treturn\n\t}", "", "./server", "TestLog"},
		{"T16", "engine/lm.go", "if !m.crowd(job.Key) {", "if true {", "./engine", "TestCrowd"},
		{"T16", "engine/lm.go", "if n := m.runningOf(s.job.Key); n < fewest {", "if n := m.runningOf(s.job.Key); n < fewest && false {", "./engine", "TestFairKeys"},
		{"T18", "server/keys.go", "if m := st.Mode().Perm(); m&0o077 != 0 {", "if m := st.Mode().Perm(); m&0o077 != 0 && false {", "./server", "TestKeys"},
	}...)
}
