package phonemes

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/axle-llm/axle/internal/fuzzguard"
)

const tiny = `{"hello":"həlˈO","world":"wˈɜɹld","read":{"DEFAULT":"ɹˈid","VBN":"ɹˈɛd"},"record":{"DEFAULT":"ɹˈɛkəɹd","VERB":"ɹəkˈɔɹd"},
"cat":"kˈæt","box":"bˈɑks","want":"wˈɑnt","apple":"ˈæpᵊl","city":"sˈɪɾi","wait":"wˈAt","stop":"stˈɑp","make":"mˈAk","Monday":"mˈʌndˌA",
"used":{"DEFAULT":"jˈuzd","VBD":"jˈust"},"NASA":"nˈæsə","be":{"DEFAULT":"bi","NOUN":null}}`

func TestPieces(t *testing.T) {
	l := NewLexicon(American)
	if err := l.AddMisaki([]byte(tiny)); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"Hello, world!": "həlˈO, wˈɜɹld!", "the cats": "ðə kˈæts", "the apple": "ði ˈæpᵊl", "cities": "sˈɪTiz", "boxes": "bˈɑksᵻz",
		"wanted": "wˈɑntᵻd", "waited": "wˈATᵻd", "waiting": "wˈATɪŋ", "stopped": "stˈɑpt", "making": "mˈAkɪŋ", "monday": "mˈʌndˌA",
		"to record": "tə ɹəkˈɔɹd", "the record": "ðə ɹˈɛkəɹd", "have read": "ˌAʧˌAvˌiˈi ɹˈɛd", "used to": "jˈust tˌiˈO",
		"NASA": "nˈæsə", "GPUs": "ʤˌipˌijˈuz", "cat's": "kˈæts", "": "", "…": "", "😀": "",
	} {
		if got := strings.Join(symbolsOf(l, text), "|"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	for p := range l.Pieces("Hello. " + strings.Repeat("world hello, cat ", 1000)) {
		if p != "həlˈO." {
			t.Errorf("the first piece is %q", p)
		}
		break
	}
	first, second, ok := Halve("həlˈO wˈɜɹld, kˈæt bˈɑks")
	if first != "həlˈO wˈɜɹld," || second != "kˈæt bˈɑks" || !ok {
		t.Errorf("halves %q and %q", first, second)
	}
	if _, _, ok := Halve("kˈæt"); ok {
		t.Error("a word has halves")
	}
}

func TestBadDictionaries(t *testing.T) {
	for _, text := range []string{"", "[]", `{"a":1}`, `{"a":"?"}`, `{"a":""}`, `{"a":{"NOUN":5}}`, `{"a":"ə"`, `{"a":"ə"} x`,
		`{"` + strings.Repeat("a", 65) + `":"ə"}`, `{"a":"` + strings.Repeat("ə", 81) + `"}`} {
		if err := NewLexicon(American).AddMisaki([]byte(text)); err == nil {
			t.Errorf("%.40q is read", text)
		}
	}
}

// TestCMU: a word that no other dictionary has, nor its stem, sounds as CMUdict says.
func TestCMU(t *testing.T) {
	l := NewLexicon(American)
	if err := l.AddMisaki([]byte(tiny)); err != nil {
		t.Fatal(err)
	}
	if err := l.AddCMU([]byte(`;;; # CMUdict
!EXCLAMATION-POINT  EH2 K
CAT  K AA1 T
CATS  K AA1 T S
PICARDO  P IH0 K AA1 R D OW0
PICARDO(1)  P IY0 K AA1 R D OW0
D\xc9J\xc0  D EY2
butterworth b AH1 t ER0 w ER2 th # a name
O'NEILL  OW0 N IY1 L
ROSA  ZH JH AA0 AO0 NG HH
`)); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"cat": "kˈæt", "cats": "kˈæts", "Picardo": "pɪkˈɑɹdO", "Butterworth.": "bˈʌtəɹwˌɜɹθ.", "O'Neill": "Onˈil", "rosa": "ʒʤɑɔŋh",
		"PICARDO": "pˌiˌIsˌiˌAˌɑɹdˌiˈO",
	} {
		if got := strings.Join(symbolsOf(l, text), "|"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"", ";;; none", "(x) AA", "a QQ1", "a AA3", "a 1", "a", "a " + strings.Repeat("AA ", 81)} {
		if err := NewLexicon(American).AddCMU([]byte(text)); err == nil {
			t.Errorf("%.40q is read", text)
		}
	}
}

// TestPiecesSay: the last piece of each sentence comes with the sentence as it is written.
func TestPiecesSay(t *testing.T) {
	l := NewLexicon(American)
	long := "The " + strings.Repeat("very ", 40) + "end."
	var said []string
	pieces, last := 0, ""
	for piece, sentence := range l.Pieces(" …\nIt's  5 p.m., hello. " + long + "\n Bye ") {
		if pieces, last = pieces+1, piece; sentence != "" {
			said = append(said, sentence)
			last = ""
		}
	}
	if want := []string{"It's  5 p.m., hello.", long, "Bye"}; !slices.Equal(said, want) || pieces < 5 || last != "" {
		t.Errorf("%d pieces of %q, want %q", pieces, said, want)
	}
}

// TestMisaki reads the real dictionaries, which AXLE_TEST_MISAKI is the folder of.
func TestMisaki(t *testing.T) {
	l := misaki(t, American, "us_gold.json", "us_silver.json")
	for text, want := range map[string]string{
		"Hello, world!":          "həlˈO, wˈɜɹld!",
		"The water boiled.":      "ðə wˈɔTəɹ bˈYld.",
		"I want to record that.": "ˌI wˈɑnt tə ɹəkˈɔɹd ðæt.",
	} {
		if got := strings.Join(symbolsOf(l, text), "|"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	t.Logf("%d words in %d KiB", l.count, (cap(l.data)+4*len(l.slots))>>10)
}

// FuzzPieces: only the vocabulary comes out, in pieces that fit.
func FuzzPieces(f *testing.F) {
	l := NewLexicon(American)
	if err := l.AddMisaki([]byte(tiny)); err != nil {
		f.Fatal(err)
	}
	f.Add(strings.Repeat("Hello, world! the-cat's X ", 50) + strings.Repeat("q", 300) + " ssssS 's '")
	f.Add("cat" + strings.Repeat(".,", 100))
	for _, line := range strings.Split(readings, "|")[:50] {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 20_000 {
			return
		}
		fuzzguard.Check(t, len(text), func() {
			for p := range l.Pieces(text) {
				first, second, ok := Halve(p)
				bad := strings.Trim(p, symbols+" ,.;:!?…—()“”")
				if n := utf8.RuneCountInString(p); n == 0 || n > MaxSymbols || bad != "" || ok && (first == "" || second == "") {
					t.Errorf("%q has the piece %q", text, p)
				}
			}
		})
	})
}

func symbolsOf(l *Lexicon, text string) (all []string) {
	for piece := range l.Pieces(text) {
		all = append(all, piece)
	}
	return all
}

func misaki(t testing.TB, accent Accent, names ...string) *Lexicon {
	folder := os.Getenv("AXLE_TEST_MISAKI")
	if folder == "" {
		t.Skip("SKIPPED: AXLE_TEST_MISAKI names no folder with misaki's dictionaries")
	}
	l := NewLexicon(accent)
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(folder, name))
		if err == nil {
			err = l.AddMisaki(b)
		}
		if err != nil {
			t.Fatal(name, err)
		}
	}
	return l
}

// Expected 200 ms and 7 MiB for both American dictionaries; 390 ms and 6.2 MiB measured.
func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		misaki(b, American, "us_gold.json", "us_silver.json")
	}
}
