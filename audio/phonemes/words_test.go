package phonemes

import (
	"strings"
	"testing"

	"github.com/axle-llm/axle/internal/fuzzguard"
)

// Each line is a text, what an American reads, and what a Briton reads where that differs.
const readings = `
Hello, world!|Hello, world!
0|zero
7|seven
13|thirteen
42|forty two
100|one hundred
105|one hundred five|one hundred and five
999|nine hundred ninety nine|nine hundred and ninety nine
1,000|one thousand
1,005|one thousand five|one thousand and five
1,234,567|one million two hundred thirty four thousand five hundred sixty seven|one million two hundred and thirty four thousand five hundred and sixty seven
12345|twelve thousand three hundred forty five|twelve thousand three hundred and forty five
1000000|one million
2,000,000,000|two billion
-5|minus five
It was -40 outside.|It was minus forty outside.
3.14|three point one four
0.05|zero point zero five
.5|point five
10.0|ten point zero
007|zero zero seven
1234567890123456|one two three four five six seven eight nine zero one two three four five six
1st|first
2nd|second
3rd|third
4th|fourth
5th|fifth
8th|eighth
9th|ninth
12th|twelfth
20th|twentieth
21st|twenty first
100th|one hundredth
101st|one hundred first|one hundred and first
1/2|one half
3/4|three quarters
2/3|two thirds
5/8|five eighths
7/25|seven over twenty five
2 1/2 cups|two and a half cups
2½ cups|two and a half cups
in 1984|in nineteen eighty four
in 1900|in nineteen hundred
in 1905|in nineteen oh five
in 2000|in two thousand
in 2005|in two thousand five|in two thousand and five
in 2010|in twenty ten
in 2026|in twenty twenty six
the 1980s|the nineteen eighties
the 80s|the eighties
the '90s|the nineties
1990-1995|nineteen ninety to nineteen ninety five
1914–1918|nineteen fourteen to nineteen eighteen
10-20|ten to twenty
10–20%|ten to twenty percent
5-6 km|five to six kilometers|five to six kilometres
555-1234|five five five, one two three four
555-123-4567|five five five, one two three, four five six seven
(555) 123-4567|(five five five) one two three, four five six seven
+1-555-123-4567|plus one, five five five, one two three, four five six seven
Chapter IV|Chapter four
Part XII begins.|Part twelve begins.
World War II|World War two
Henry VIII|Henry the eighth
Elizabeth II.|Elizabeth the second.
I am here.|I am here.
2026-11-28|November twenty eighth, twenty twenty six|the twenty eighth of November, twenty twenty six
12/31/2026|December thirty first, twenty twenty six|the thirty first of December, twenty twenty six
4/5/2026|April fifth, twenty twenty six|the fourth of May, twenty twenty six
31.12.2026|December thirty first, twenty twenty six|the thirty first of December, twenty twenty six
Nov 28, 2026|November twenty eighth, twenty twenty six|the twenty eighth of November, twenty twenty six
Nov. 28, 2026|November twenty eighth, twenty twenty six|the twenty eighth of November, twenty twenty six
November 28th|November twenty eighth|the twenty eighth of November
on 28 November 2026|on the twenty eighth of November, twenty twenty six
the 4th of July|the fourth of July
July 4|July fourth|the fourth of July
May I come?|May I come?
14:30|fourteen thirty
9:05|nine oh five
09:05|nine oh five
2:30 pm|two thirty P M
2:30pm|two thirty P M
2:30 p.m. today|two thirty P M today
2 pm|two P M
11am|eleven A M
5:00|five o'clock
5:00 pm|five P M
14:00|fourteen hundred
14:30:15|fourteen thirty and fifteen seconds
$3.50|three dollars and fifty cents
$1|one dollar
$1.01|one dollar and one cent
$0.99|ninety nine cents
£1|one pound
£2.50|two pounds and fifty pence
£0.01|one penny
€20|twenty euros
20€|twenty euros
¥500|five hundred yen
5 cents|five cents
5¢|five cents
$2 million|two million dollars
$2.5 billion|two point five billion dollars
$3M|three million dollars
£5bn|five billion pounds
$1,200|one thousand two hundred dollars
-$5|minus five dollars
US$5|five dollars
50%|fifty percent
99.9 %|ninety nine point nine percent
100 km/h|one hundred kilometers per hour|one hundred kilometres per hour
60mph|sixty miles per hour
20°C|twenty degrees Celsius
-5 °C|minus five degrees Celsius
72°F|seventy two degrees Fahrenheit
1 kg|one kilogram
5 kg|five kilograms
16 GB|sixteen gigabytes
16GB|sixteen gigabytes
1 GB|one gigabyte
20 ms|twenty milliseconds
2.4 GHz|two point four gigahertz
6 ft|six feet
1 ft|one foot
5 m/s|five meters per second|five metres per second
12V|twelve volts
3 kWh|three kilowatt hours
30 fps|thirty frames per second
5 in a row|five in a row
10 m²|ten square meters|ten square metres
1920x1080|one thousand nine hundred twenty by one thousand eighty|one thousand nine hundred and twenty by one thousand and eighty
Dr. Smith|Doctor Smith
Mr. Jones left.|Mister Jones left.
Mrs. Brown and Mr. Green|Missus Brown and Mister Green
Prof. Lee|Professor Lee
St. Paul|Saint Paul
Main St. is closed.|Main Street is closed.
fruit, e.g. apples|fruit, for example apples
i.e. this one|that is this one
cats vs. dogs|cats versus dogs
apples, pears, etc.|apples, pears, et cetera.
No. 5|number five
No. That is wrong.|No. That is wrong.
Fig. 3|figure three
the U.S. army|the U S army
J. R. Tolkien|J R Tolkien
USB|USB
GPUs|GPUs
He told US to join IT.|He told U S to join I T.
tom@example.com|tom at example dot com
https://www.example.com/a|W W W dot example dot com slash a
example.org|example dot org
salt & pepper|salt and pepper
2 + 2 = 4|two plus two equals four
@home|at home
#5|number five
#winning|hashtag winning
a < b|a less than b
and/or|and or
he/she|he slash she
~10|about ten
v1.2.3|v one point two point three
MP3|MP three
H2O|H two O
3D|three D
10k|ten thousand
Nice 😀 day|Nice day
你好 hello|hello
café|cafe
naïve Zoë|naive Zoe
“Hello,” she said.|“Hello,” she said.
"Hello," she said.|“Hello,” she said.
it’s fine|it's fine
'tis so|'tis so
wait...|wait…
wait... what|wait… what
yes—no|yes — no
yes -- no|yes — no
yes - no|yes — no
well-known|well-known
Really?!|Really?!
No!!!|No!
(aside)|(aside)
[note]|(note)
line one
`

func TestWords(t *testing.T) {
	lines := 0
	for line := range strings.Lines(readings) {
		line = strings.TrimSpace(line)
		parts := strings.Split(line, "|")
		if len(parts) < 2 {
			continue
		}
		lines++
		for accent := range 2 {
			want := parts[min(accent+1, len(parts)-1)]
			if got := Words(parts[0], Accent(accent)); got != want {
				t.Errorf("%q, accent %d:\n got %q\nwant %q", parts[0], accent, got, want)
			}
		}
	}
	if lines < 150 {
		t.Errorf("only %d lines", lines)
	}
}

// FuzzWords: any text is read within bounds, and what comes out has no digits and no emoji.
func FuzzWords(f *testing.F) {
	for line := range strings.Lines(readings) {
		f.Add(line)
	}
	f.Add(strings.Repeat("1", 5000) + "-" + strings.Repeat("a.", 3000))
	f.Add("\xff—–…$€1/0 0/0/0000 99:99pm IV")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 20_000 {
			return
		}
		for _, accent := range []Accent{American, British} {
			fuzzguard.Check(t, len(text), func() {
				if at := strings.IndexAny(Words(text, accent), "0123456789$€😀"); at >= 0 {
					t.Errorf("%q is read as %q", text, Words(text, accent))
				}
			})
		}
	})
}

// Expected 30 µs for a sentence; 26 µs measured on one core of an EPYC.
func BenchmarkWords(b *testing.B) {
	for b.Loop() {
		Words("On Nov 28, 2026 Dr. Smith paid $3.50 for 5 kg of apples, and left at 2:30 pm.", American)
	}
}
