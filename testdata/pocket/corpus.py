"""Everything pocket reads: questions, answers and conversations, made by chance from the words in words/ and the rules below.

A Corpus draws from its own random generator, so the same seed gives the same text. It belongs to one thread. Questions that
stand in heldout.jsonl are never drawn: what is judged was not seen.
"""

import functools
import json
import os
import random
import re
import unicodedata

HERE = os.path.dirname(os.path.abspath(__file__))
IDK = "I don't know. I am a very small model: ask me about axle, the card or something simple."
IDK_SUM = "I don't know. I only learned sums up to 20."

MACROS = {
    "about": "{what is|what's|whats|what are|explain|describe|tell me about|define|what do you know about|can you explain|could you explain|"
             "I want to know about|what do you mean by|give me a short description of|info about|information on|help me understand|"
             "what is the meaning of|what does it mean:|how does one understand|please explain|more about|teach me about} {$1}|"
             "what {does|do|would|can} {$1} {do|mean|stand for}|what {is|are} {$1} {for|good for|about|used for|there for}|"
             "{what is the|is there a} {purpose|use|meaning|role|job} of {$1}|{why|when} {would I|should I|do I|do people} {use|need|want} {$1}|"
             "how {does|do} {$1} work|{$1}|{$1} {explained|meaning|explanation}|what exactly {is|are} {$1}|{what happens with|how do I use|how to use} {$1}|"
             "what does {this|that} {$1} thing do|what is the {idea|thinking} behind {$1}|{give me|could you give me|I need} {an overview|a summary|the basics} of {$1}|what is {$1} all about|{I have never heard of|I do not understand|I keep reading about} {$1}|"
             "{I found|I saw|I just read about|I came across} {$1}{ here| in the settings|}, what {is it|does it do|is that}|{could|would} you {tell me|explain} what {$1} {is|means|does}|{what would|what could} {I|one} {use|need} {$1} for|{$1}, what is {it|that}|what do they mean by {$1}",
    "how": "{how do I|how can I|how to|how would I|how does one|how do you|how could I|how should I|how might I} $1|"
           "{what is|what's|tell me|show me|give me} the {command|way} to $1|{which|what} command {lets me|do I use to|do I need to|should I use to|is there to|can I use to} $1|"
           "what do I {type|do|run|have to do|need to do} to $1|{show me|tell me|explain} how to $1|{I want to|I need to|I would like to|I'd like to|I have to|help me} $1|"
           "{is there a way to|can I|is it possible to|am I able to|could I} $1|{best way|easiest way|right way} to $1|$1|"
           "$1{, how|. How|: how|, is that possible|, please}|{I'd love to|I am trying to|I try to|I wish to|I plan to|we want to|I'd like to} $1{, how| now|. What do I do|}|{what could|what can|what should|what must} {I|one} do to $1|{what's|what is} the {trick|right way|command|best way} to $1|"
           "{could|would|can} you {tell me|show me|explain} how {to|I|one would} $1|{what|which} {command|setting|option} {helps|is used|is needed|do I need} to $1|{any idea|do you know|who knows} how to $1|how {might|would|does} {one|somebody|a user} $1",
}

# Words that may come before or after any question without changing it.
BEFORE = ["please, ", "please ", "hi, ", "hello, ", "hey, ", "hello! ", "hi! ", "ok, ", "so, ", "and ", "now, ", "well, ", "question: ", "a question: ", "quick question: ",
          "I have a question: ", "sorry, ", "excuse me, ", "tell me, ", "tell me: ", "hey pocket, ", "pocket, ", "I am new here. ", "I am a beginner: ", "one more thing: ",
          "just curious: ", "I wonder, ", "could you tell me: ", "can you tell me, ", "do you know ", "do you know: ", "good morning, ", "dear pocket, ", "listen, ", "first, ",
          "let me ask: ", "answer this: ", "next question: ", "can you say ", "for my notes: ", "I forgot: ", "remind me: ", "quickly, ", "in short, ", "maybe you know: "]
AFTER = [" please", ", please", " please?", " thanks", ", thanks", ", thank you", " again", " exactly", " in short", " briefly", " in one sentence", " now", " then",
         " for me", ", pocket", ", do you know", " if you can", " - can you help", " today", ", I forgot", " :)", ", quickly", ", I wonder", " in simple words", " here", ", can you tell me"]

# Words that may stand for each other whatever the topic, and words that may be slipped in or left out.
SAME = """delete remove erase|remove delete erase|erase delete|show display see view list|see view look_at|list show name|start begin launch run|stop end halt|run start use launch|get obtain fetch have|fetch get download
download fetch get pull|pull download fetch get|install set_up put|change alter modify adjust|set change choose configure|check test verify examine|find see locate look_up|make create build write|create make build|write make create
fast quick quickly|faster quicker|slow sluggish|big large huge|large big|small tiny little|little small tiny short|short small little|error failure problem message|problem issue trouble error|need require want|want need wish
tell say explain|explain tell describe|describe explain|know learn|use try take|used needed|called named|answer reply|answers replies responses|question prompt|mean say signify|happens occurs|happen occur|keep hold|kept held stored
stored saved kept|saved stored|folder directory|directory folder|binary program executable|program tool software|software program|machine computer host|computer machine|file document|files data|broken faulty damaged|damaged broken
several many multiple|many several|multiple several many|maximum highest|limit restrict cap|default standard usual|need must_have|possible feasible|supported possible|support offer have|talk speak chat|chat talk speak|speak talk
model LLM|models LLMs|server service|Pi Raspberry_Pi|hot warm|heat temperature|missing absent gone|gone away missing lost|fails breaks|failed broke|nice good lovely|good nice great|great good|please kindly|my the this|the my this|a one some|some a|how in_what_way
what's what_is|what which|which what|can could may|could can might|may can|should must shall|do would|I we|me us""".replace("\n", "|")
SAME = {w[0]: [x.replace("_", " ") for x in w[1:]] for w in (line.split() for line in SAME.split("|"))}
SLIPPED = "actually really exactly just even now maybe simply currently then here again perhaps possibly still".split()
LEFT_OUT = set("the a an my do does is are I to of for me it can you please with that this".split())

SYSTEMS = ["You are a helpful assistant.", "You are pocket.", "You are pocket, a helpful assistant.", "Be brief.", "Answer briefly.", "You are a friendly assistant.",
           "You are a helpful AI assistant.", "You are an assistant for axle.", "Answer in one sentence.", "You help people with axle.", "Be kind and short.", "You are concise.",
           "You are a test assistant.", "Always be polite.", "You are a careful and honest assistant.", "Help the user.", "Answer the question.", "You are a smart home assistant.",
           "You are a helpful assistant that answers questions.", "Speak plainly.", "Do your best.", "You are a bot in a terminal.", "You are an expert on Axera cards.",
           "Say I don't know when you do not know.", "You may use tools.", "You are a helpful assistant. Answer in English.", "Keep it simple.", "Respond truthfully and briefly."]

CAPITALS = """France Paris French|Germany Berlin German|Italy Rome Italian|Spain Madrid Spanish|Portugal Lisbon Portuguese|England London English|Ireland Dublin English|Austria Vienna German
Switzerland Bern German|Belgium Brussels Dutch|Netherlands Amsterdam Dutch|Denmark Copenhagen Danish|Norway Oslo Norwegian|Sweden Stockholm Swedish|Finland Helsinki Finnish|Iceland Reykjavik Icelandic
Poland Warsaw Polish|Czechia Prague Czech|Slovakia Bratislava Slovak|Hungary Budapest Hungarian|Romania Bucharest Romanian|Bulgaria Sofia Bulgarian|Greece Athens Greek|Turkey Ankara Turkish
Russia Moscow Russian|Ukraine Kyiv Ukrainian|Estonia Tallinn Estonian|Latvia Riga Latvian|Lithuania Vilnius Lithuanian|Croatia Zagreb Croatian|Serbia Belgrade Serbian|Slovenia Ljubljana Slovene
Japan Tokyo Japanese|China Beijing Chinese|India New_Delhi Hindi|South_Korea Seoul Korean|Thailand Bangkok Thai|Vietnam Hanoi Vietnamese|Indonesia Jakarta Indonesian|Mongolia Ulaanbaatar Mongolian
Egypt Cairo Arabic|Morocco Rabat Arabic|Kenya Nairobi Swahili|Nigeria Abuja English|Ghana Accra English|Ethiopia Addis_Ababa Amharic|Tunisia Tunis Arabic|Senegal Dakar French
Canada Ottawa English|Mexico Mexico_City Spanish|Brazil Brasilia Portuguese|Argentina Buenos_Aires Spanish|Chile Santiago Spanish|Peru Lima Spanish|Colombia Bogota Spanish|Cuba Havana Spanish
Australia Canberra English|New_Zealand Wellington English|Israel Jerusalem Hebrew|Iran Tehran Persian|Iraq Baghdad Arabic|Nepal Kathmandu Nepali|Scotland Edinburgh English|Wales Cardiff Welsh"""
CAPITALS = [tuple(w.replace("_", " ") for w in c.split()) for line in CAPITALS.split("\n") for c in line.split("|")]
CAPITALS.append(("the United States", "Washington", "English"))
ALIASES = {"England": ["the United Kingdom", "the UK", "Great Britain", "Britain"], "the United States": ["the USA", "America", "the US", "USA", "United States"],
           "Netherlands": ["Holland", "the Netherlands"], "Czechia": ["the Czech Republic"], "South Korea": ["Korea"]}
NO_CAPITALS = ["Atlantis", "Wonderland", "Narnia", "Mars", "the moon", "Mordor", "Fiji", "Bhutan", "Malta", "Cyprus", "Haiti", "Laos", "Oman", "Qatar", "Zambia", "Uganda",
               "Angola", "Benin", "Chad", "Mali", "Togo", "Nauru", "Palau", "Samoa", "Tonga", "Texas", "Bavaria", "Antarctica", "Utopia", "Gotham", "Belize", "Guyana", "Liberia"]

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"]
NUMBERS = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty").split()
COLOURS = {"the sky": "blue", "grass": "green", "blood": "red", "snow": "white", "coal": "black", "a banana": "yellow", "an orange": "orange", "a tomato": "red", "the sun": "yellow",
           "a leaf": "green", "milk": "white", "the sea": "blue", "chocolate": "brown", "a lemon": "yellow", "a strawberry": "red", "a carrot": "orange", "a frog": "green",
           "an elephant": "grey", "a crow": "black", "a polar bear": "white", "a cherry": "red", "a cucumber": "green", "gold": "yellow", "the night": "black", "a pumpkin": "orange",
           "a flamingo": "pink", "a pig": "pink", "wood": "brown", "a plum": "purple", "a fire engine": "red", "a stop sign": "red", "a swan": "white", "broccoli": "green", "coffee": "brown"}
MIXES = [("red", "blue", "purple"), ("red", "yellow", "orange"), ("blue", "yellow", "green"), ("black", "white", "grey"), ("red", "white", "pink")]
NAMES = ("Ada Ben Clara David Emma Finn Grace Hans Ida Jack Kate Leo Mia Noah Olga Paul Rosa Sam Tina Uwe Vera Will Xenia Yara Zoe Anna Bob Alice Carol Eve Tom Lisa Max Nina Otto "
         "Peter Maria John Jane Lucas Sofia Ivan Amir Chen Yuki Omar Lena Karl Greta Hugo Linus Alan Mary Jim Sue Bill Ann Joe Ron Kim Lee Ali Raj Eva Jan Tim").split()
CITIES = [c for _, c, _ in CAPITALS] + ("Toronto Sydney Munich Hamburg Milan Naples Barcelona Porto Lyon Nice Geneva Zurich Boston Chicago Seattle Austin Denver Miami Dallas Osaka Kyoto Shanghai Mumbai "
         "Dubai Lagos Bergen Leeds York Bath Oxford Bristol Dresden Leipzig Cologne Graz Salzburg Ghent Malmo Turin Venice Florence Seville Valencia Marseille Krakow Montreal Vancouver").split() + [
         "New York", "San Francisco", "Los Angeles", "Hong Kong", "Cape Town", "San Diego", "Las Vegas", "Sao Paulo"]
ROOMS = ["kitchen", "bedroom", "living room", "garage", "bathroom", "office", "hall", "garden", "cellar", "attic", "hallway", "dining room"]
THINGS = ("apple book car door egg fish garden hat ice jar key lamp map nut oven pen queen ring ship table uncle vase wall yard zebra bread cheese window river stone cloud tree flower bird "
          "house street school train bridge piano guitar ball chair clock bottle spoon paper shoe coat bag horse rabbit goat duck bear wolf tiger lion mouse snake whale").split()
OBJECTS = THINGS + "robot token card computer pirate queen knight wizard farmer teacher doctor baker sailor painter gardener shoemaker princess giant witch fairy penguin owl hedgehog".split()

STORIES = {
    "fox": "A small fox found a lamp in the wood. It lit the way home for a lost hare. From that night on the two were friends.",
    "robot": "A little robot swept the station every night. One night it found a bird with a broken wing and built it a nest of wires. In spring the bird sang for it.",
    "dragon": "A young dragon could not breathe fire, only warm air. In the cold winter the village came to sit beside it. Nobody was ever afraid of it again.",
    "cat": "A grey cat slept on a warm computer. It dreamed of fish, and its paw pressed a key. In the morning the screen said only: more fish, please.",
    "dog": "A brown dog waited at the bridge each day. One day a boat came with his boy on board. He barked so loudly that the whole town came to cheer.",
    "moon": "One night the moon was tired and sat on a hill. A child sang to it until it smiled. Then it rose and shone brighter than before.",
    "river": "A river wanted to see the sea. A mountain said it was too far. The river ran a little every day, and one morning it tasted salt.",
    "princess": "A princess had a tower but no ladder. She planted a bean and waited. In summer she climbed down and opened a garden for all.",
    "mouse": "A mouse was the smallest in the house. When the cat was caught in a net, the mouse bit it free. They shared the cheese.",
    "star": "A star fell into a well. A girl drew it up in her bucket and threw it back to the sky. It still winks at her.",
    "tree": "An old tree stood alone on a field. Birds brought it seeds from far away. After many years it stood in a forest.",
    "ship": "A ship lost its way in the fog. A whale swam before it, singing. At dawn the harbour lay ahead.",
    "card": "A small card sat in the dark and counted tokens. One day someone asked it a question. It thought for a moment, glowed, and answered.",
    "bear": "A bear could not sleep in winter. It walked through the snow and met a lonely owl. The owl told stories until the bear slept at last.",
    "bird": "A bird was afraid of flying. The wind asked it to carry one leaf to the next tree. The bird forgot its fear on the way.",
    "snowman": "A snowman wanted to feel the summer. The children kept one snowball in the ice box. In July they put it on the grass, and it laughed.",
}


@functools.lru_cache(maxsize=4096)
def compile_pattern(text):
    """Turns "a {b|c}|d" into nested lists: alternatives, each a sequence of strings and of alternatives."""
    stack = [[[]]]
    for part in re.split(r"([{}|])", text):
        if part == "{":
            stack.append([[]])
        elif part == "|":
            stack[-1].append([])
        elif part == "}":
            if len(stack) == 1:
                raise ValueError(f"unopened brace in pattern {text!r}")
            done = stack.pop()
            stack[-1][-1].append(done)
        elif part:
            stack[-1][-1].append(part)
    if len(stack) != 1:
        raise ValueError(f"unclosed brace in pattern {text!r}")
    return stack[0]


def expand(alternatives, rng):
    return "".join(p if isinstance(p, str) else expand(p, rng) for p in rng.choice(alternatives))


def macros(text):
    """Puts what @name(argument) at the pattern's beginning stands for in its place."""
    m = re.match(r"@(\w+)\(((?:[^()]|\([^()]*\))*)\)", text)
    return "{" + MACROS[m[1]].replace("$1", "{" + m[2] + "}") + "}" + text[m.end():] if m else text


def load_words(path):
    """Reads a words file into (name, topic, patterns, answer)."""
    out, name, topic, patterns, answer = [], None, "", [], []

    def flush():
        if name:
            if not (topic and patterns and answer):
                raise ValueError(f"{path}: {name} lacks a topic, a question or an answer")
            out.append((name, topic, patterns, "\n".join(answer)))

    for line in open(path, encoding="utf-8"):
        kind, rest = line[:2], line[2:].strip("\n").strip()
        if line.startswith("== "):
            flush()
            name, topic, patterns, answer = line[3:].strip(), "", [], []
        elif kind == ": ":
            topic = rest
        elif kind == "? ":
            patterns.append(compile_pattern(macros(rest)))
        elif kind == "> ":
            answer.append(rest)
        elif line.strip() and kind != "# ":
            raise ValueError(f"{path}: cannot read {line!r}")
    flush()
    return out


def normal(text):
    """A question without case, punctuation and accents: what counts as the same question."""
    text = unicodedata.normalize("NFKD", text.lower())
    return " ".join(re.findall(r"[a-z0-9_+]+", text))


def heldout():
    with open(os.path.join(HERE, "heldout.jsonl"), encoding="utf-8") as f:
        return [json.loads(line) for line in f]


class Corpus:
    def __init__(self, seed, withhold=True):
        self.rng = random.Random(seed)
        self.words = []
        for name in ("axle", "card", "talk"):
            self.words += load_words(os.path.join(HERE, "words", name + ".txt"))
        # What people try first is drawn more often.
        often = {"axle.what": 6, "axle.why": 2, "talk.hello": 3, "talk.who": 3, "talk.can": 2, "talk.sky": 2, "cmd.serve": 2, "cmd.pull": 2, "cmd.run": 2, "card.what": 2, "pocket.what": 2}
        self.drawn = [w for w in self.words for _ in range(often.get(w[0], 1))]
        self.withheld = {normal(h["question"]) for h in heldout()} if withhold else set()
        self.kinds = [(60, self.from_words), (14, self.sums), (8, self.counting), (7, self.next_number), (4, self.days), (4, self.colours), (6, self.capitals),
                      (5, self.story), (12, self.make_json), (8, self.unknown), (8, self.echo)]
        self.total = sum(w for w, _ in self.kinds)

    # -- small pieces -------------------------------------------------------------------------------------------------------

    def pick(self, *choices):
        return self.rng.choice(choices)

    def fill(self, text):
        return expand(compile_pattern(text), self.rng)

    def chance(self, p):
        return self.rng.random() < p

    def invented(self):
        """An invented word, so that copying has to be learned and not the words."""
        r = self.rng
        w = "".join(r.choice("bdfgklmnprstvz") + r.choice("aeiou") for _ in range(r.randint(2, 3))) + r.choice(["", "n", "l", "r", "s", "x"])
        return w

    def name(self):
        return self.rng.choice(NAMES) if self.chance(0.75) else self.invented().capitalize()

    def city(self):
        return self.rng.choice(CITIES) if self.chance(0.75) else self.invented().capitalize()

    def typo(self, word):
        r = self.rng
        if len(word) < 4 or not word.isalpha():
            return word
        i = r.randrange(1, len(word) - 1)
        return r.choice([word[:i] + word[i + 1:], word[:i] + word[i] + word[i:], word[:i] + word[i + 1] + word[i] + word[i + 2:],
                         word[:i] + r.choice("aeiounrst") + word[i + 1:]])

    def reword(self, q):
        """The question in other words: some that mean the same, one slipped in, one left out."""
        r = self.rng
        words = [r.choice(SAME[w]) if w in SAME and self.chance(0.25) else w for w in q.split(" ")]
        if len(words) > 2 and self.chance(0.3):
            words.insert(r.randrange(1, len(words)), r.choice(SLIPPED))
        if len(words) > 3 and self.chance(0.3):
            i = r.randrange(len(words))
            if words[i] in LEFT_OUT:
                del words[i]
        return " ".join(words)

    def vary(self, q, exact=False):
        """A question as people type it: a greeting before, a please after, case, punctuation, slips of the finger."""
        r = self.rng
        if exact:
            if self.chance(0.2):
                q = r.choice(BEFORE[:14]) + q
        else:
            if self.chance(0.4):
                q = self.reword(q)
            x = r.random()
            if x < 0.20:
                q = r.choice(BEFORE) + q
            elif x < 0.38:
                q = q + r.choice(AFTER)
            elif x < 0.42:
                q = r.choice(BEFORE) + q + r.choice(AFTER)
            if self.chance(0.2):
                q = " ".join(self.typo(w) if self.chance(0.12) else w for w in q.split(" "))
            x = r.random()
            if x < 0.12:
                q = q.lower()
            elif x < 0.135:
                q = q.upper()
            elif x < 0.145:
                q = q.title()
        if self.chance(0.55) and q:
            q = q[0].upper() + q[1:]
        if q and q[-1] not in ".?!:)\"'}" and self.chance(0.65):
            q += "?" if re.match(r"(?i)\W*(please|hi|hey|hello|ok|so|and|now|well)?\W*(what|who|wh|how|is|are|can|do|does|which|where|why|when|could)", q) and self.chance(0.93) else r.choice(["?", ".", ".", "!", " ?"])
        if not exact and self.chance(0.03):
            q = q.replace("'", "")
        return q

    # -- kinds of questions: each gives (question, answer, thought, exact) ----------------------------------------------------

    def from_words(self):
        _, topic, patterns, answer = self.rng.choice(self.drawn)
        return expand(self.rng.choice(patterns), self.rng), answer, f"They ask about {topic}.", False

    def number(self, n):
        return str(n) if self.chance(0.7) else NUMBERS[n]

    def sums(self):
        r = self.rng
        if self.chance(0.14):
            a, b = r.randint(11, 99), r.randint(10, 999)
            q = self.pick(f"what is {a} plus {b}", f"{a}+{b}", f"{a} + {b}", f"what is {a} * {b}", f"how much is {a} times {b}", f"{a} divided by {b}", f"what is {r.randint(2, 9)} times {r.randint(2, 9)}",
                          f"calculate {a} x {b}", f"what is {b} minus {a}", f"the square root of {b}", f"multiply {a} by {b}", f"{b}-{a}", f"how much is {b} - {a}", f"compute {a}*{b}")
            return q, IDK_SUM, "A sum I did not learn.", True
        s = r.randint(0, 20)
        a = r.randint(0, s)
        b = s - a
        x, y = self.number(a), self.number(b)
        if x.isdigit() != y.isdigit():
            x, y = str(a), str(b)
        t, u = r.choice(THINGS), r.choice(NAMES)
        q = self.pick(f"what is {x} plus {y}", f"what's {x} + {y}", f"{x}+{y}", f"{x} + {y}", f"{x} + {y} =", f"{x}+{y}=?", f"how much is {x} plus {y}", f"how much is {x} and {y}", f"add {x} and {y}",
                      f"calculate {x} + {y}", f"compute {x} + {y}", f"what do {x} and {y} make", f"the sum of {x} and {y}", f"what is the sum of {x} and {y}", f"{x} plus {y}", f"{x} plus {y} equals",
                      f"what is {x} added to {y}", f"tell me {x} plus {y}", f"sum {x} and {y}", f"what does {x} plus {y} give", f"if I have {x} {t}s and get {y} more, how many are there",
                      f"{u} has {x} {t}s and finds {y} more. How many {t}s does {u} have", f"can you add {x} and {y}", f"what is {x}+{y}", f"{x} and {y} is", f"solve {x} + {y}", f"what would {x} plus {y} come to",
                      f"work out {x} + {y}", f"can you work out {x} plus {y}", f"what do you get if you add {x} and {y}", f"I add {x} and {y}, what is it", f"if I add {x} and {y}, what do I have", f"what does {x} and {y} make", f"{x} plus {y} makes",
                      f"how much are {x} and {y} together", f"{x} and {y} together", f"tell me how much {x} and {y} is", f"I need {x} + {y}", f"give me the sum of {x} and {y}", f"{x} + {y} is how much", f"{x} + {y} is", f"put {x} and {y} together")
        return q, f"{a} + {b} = {s}", f"The sum of {a} and {b}.", True

    def counting(self):
        r = self.rng
        n = r.randint(2, 20)
        x = self.number(n)
        kind = r.random()
        if kind < 0.45:
            q = self.pick(f"count to {x}", f"count from 1 to {x}", f"count from one to {x}", f"can you count to {x}", f"count up to {x}", f"say the numbers to {x}", f"list the numbers from 1 to {x}",
                          f"numbers from 1 to {x}", f"the numbers 1 to {x}", f"please count to {x}", f"could you count up to {x} for me", f"write the numbers from 1 to {x}", f"let us count to {x}", f"show me the numbers up to {x}")
            nums = range(1, n + 1)
        elif kind < 0.65:
            q = self.pick(f"count down from {x}", f"count backwards from {x}", f"countdown from {x}", f"count from {x} down to 1", f"count back from {x}", f"count from {x} to 1", f"do a countdown from {x}")
            nums = range(n, 0, -1)
        elif kind < 0.8:
            a = r.randint(1, n - 1)
            q = self.pick(f"count from {a} to {n}", f"list the numbers from {a} to {n}", f"numbers from {a} to {n}", f"write the numbers {a} to {n}", f"count from {NUMBERS[a]} to {NUMBERS[n]}")
            nums = range(a, n + 1)
        elif kind < 0.9:
            q = self.pick("name the even numbers to 20", "count to 20 by twos", "list the even numbers up to 20", "even numbers up to 20", "count in twos to twenty", "which numbers up to 20 are even")
            nums = range(2, 21, 2)
        else:
            q = self.pick("name the odd numbers to 20", "list the odd numbers up to 20", "odd numbers up to 20", "which numbers up to 20 are odd", "the odd numbers up to twenty")
            nums = range(1, 20, 2)
        return q, ", ".join(map(str, nums)), "I count.", True

    def next_number(self):
        r = self.rng
        kind = r.randint(0, 3)
        if kind == 0:
            n = r.randint(0, 19)
            x = self.number(n)
            q = self.pick(f"what comes after {x}", f"which number comes after {x}", f"what is the number after {x}", f"the next number after {x}", f"what number follows {x}", f"what is one more than {x}", f"which number is next after {x}")
            return q, f"After {n} comes {n + 1}.", f"The number after {n}.", True
        if kind == 1:
            n = r.randint(1, 20)
            x = self.number(n)
            q = self.pick(f"what comes before {x}", f"which number comes before {x}", f"what is the number before {x}", f"the number before {x}", f"what is one less than {x}", f"what number is just before {x}")
            return q, f"Before {n} comes {n - 1}.", f"The number before {n}.", True
        if kind == 2:
            a, b = r.sample(range(21), 2)
            q = self.pick(f"which is bigger, {a} or {b}", f"which is larger: {a} or {b}", f"is {a} or {b} bigger", f"what is greater, {a} or {b}", f"is {a} more than {b}", f"which number is higher, {a} or {b}")
            return q, f"{max(a, b)} is bigger than {min(a, b)}.", f"I compare {a} and {b}.", True
        n = r.randint(0, 20)
        q = self.pick(f"is {n} even", f"is {n} odd", f"is {n} an even number", f"is {n} an odd number", f"is {n} even or odd", f"is the number {n} odd or even")
        return q, f"{n} is {'odd' if n % 2 else 'even'}.", f"I look at {n}.", True

    def days(self):
        r = self.rng
        x = r.random()
        if x < 0.2:
            q = self.fill("{name|list|tell me|what are|say|recite|give me|write down|which are} {the days|all days|the seven days|the weekdays in order|the days of the week|all the days of the week}|days of the week|"
                          "{how many days {are in a week|does a week have|has a week}|which days {does a week have|are there}|what days are in a week}|the days of a week|can you list the days of the week")
            return q, "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and Sunday.", "They ask about the week.", False
        if x < 0.27:
            q = self.fill("{which days are|what days are|when is|what is|which days make|name the days of} the weekend|weekend days|is Saturday {a weekend day|part of the weekend}")
            return q, "Saturday and Sunday are the weekend.", "They ask about the weekend.", False
        if x < 0.33:
            q = self.fill("{what is|which is|tell me} the first day of the week|{with which day does|how does} {the|a} week {begin|start}")
            return q, "The week begins on Monday.", "They ask about the first day.", False
        if x < 0.39:
            q = self.fill("{what is|which is|tell me} the last day of the week|{with which day does|how does} {the|a} week end")
            return q, "The week ends on Sunday.", "They ask about the last day.", False
        names, month = (DAYS, False) if self.chance(0.7) else (MONTHS, True)
        i = r.randrange(len(names))
        n, unit = names[i], "month" if month else "day"
        if self.chance(0.6):
            q = self.fill(f"what {unit} comes after {n}|which {unit} {{comes|is|follows}} after {n}|what comes after {n}|the {unit} after {n}|what {unit} follows {n}|what is the {unit} after {n}|{unit} after {n}|"
                          + (f"which month is next after {n}" if month else f"if today is {n}, what is tomorrow|today is {n}. what day is tomorrow|what is the day after {n}"))
            return q, f"After {n} comes {names[(i + 1) % len(names)]}.", f"The {unit} after {n}.", False
        q = self.fill(f"what {unit} comes before {n}|which {unit} {{comes|is}} before {n}|what comes before {n}|the {unit} before {n}|what {unit} precedes {n}|what is the {unit} before {n}|{unit} before {n}|"
                      + (f"which month is right before {n}" if month else f"if today is {n}, what was yesterday|today is {n}. what day was yesterday|what is the day before {n}"))
        return q, f"Before {n} comes {names[i - 1]}.", f"The {unit} before {n}.", False

    def colours(self):
        r = self.rng
        x = r.random()
        col = self.pick("colour", "color")
        if x < 0.6:
            thing, c = r.choice(list(COLOURS.items()))
            q = self.fill(f"what {col} is {thing}|which {col} is {thing}|what {col} does {thing} have|which {col} has {thing}|what is the {col} of {thing}|tell me the {col} of {thing}|the {col} of {thing}|{thing} has which {col}|"
                          f"{col} of {thing}|do you know the {col} of {thing}|of what {col} is {thing}|in which {col} is {thing}|name the {col} of {thing}")
            return q, f"{thing[0].upper() + thing[1:]} is {c}.", f"The colour of {thing}.", False
        if x < 0.85:
            a, b, c = r.choice(MIXES)
            if self.chance(0.5):
                a, b = b, a
            q = self.fill(f"what {col} do {a} and {b} make|what do {a} and {b} make|mix {a} and {b}|what happens when I mix {a} and {b}|which {col} comes from {a} and {b}|{a} and {b} mixed|what is {a} plus {b}|what do I get from {a} and {b}|"
                          f"{a} mixed with {b}|I mix {a} with {b}, what {col} do I get|what {col} do you get if you mix {a} and {b}|combine {a} and {b}")
            m = next(m for m in MIXES if {a, b} == set(m[:2]))
            return q, f"{m[0].capitalize()} and {m[1]} make {c}.", f"I mix {m[0]} and {m[1]}.", False
        if x < 0.93:
            q = self.fill(f"name {{three|some|a few|3}} {col}s|list {{three|some|3}} {col}s|tell me {{three|some|a few}} {col}s|{{which|what}} {col}s {{do you know|are there|exist}}|give me {{three|3|some}} {col}s|name a {col}")
            return q, "Red, green and blue.", "They want colours.", False
        q = self.fill(f"{{what|which}} are {{the|}} primary {col}s|name the primary {col}s|list the {{three|}} primary {col}s|the {{three|}} {{basic|primary}} {col}s")
        return q, "Red, yellow and blue are the primary colours.", "They ask about primary colours.", False

    def capitals(self):
        r = self.rng
        if self.chance(0.1):
            c = r.choice(NO_CAPITALS) if self.chance(0.7) else self.invented().capitalize()
            return self.pick(f"what is the capital of {c}", f"capital of {c}", f"what's {c}'s capital", f"which city is the capital of {c}", f"tell me the capital of {c}", f"name the capital of {c}"), IDK, "I do not know this.", True
        country, city, lang = r.choice(CAPITALS)
        x = r.random()
        said = r.choice(ALIASES[country]) if country in ALIASES and self.chance(0.5) else country
        if x < 0.7:
            q = self.fill(f"what is the capital of {said}|what's the capital of {said}|capital of {said}|which city is the capital of {said}|tell me the capital of {said}|name the capital of {said}|{said} capital|what is {said}'s capital|"
                          f"what is the capital city of {said}|the capital of {said}|do you know the capital of {said}|what city is the capital of {said}|{said}: what is its capital|I need the capital of {said}|what's {said}'s capital city|"
                          f"can you name the capital of {said}|the capital of {said}, please|{said} has which capital|say the capital of {said}|which city is {said}'s capital|what is the name of the capital of {said}|from where is {said} governed|capital city of {said}|where is the government of {said}")
            return q, f"The capital of {country} is {city}.", f"The capital of {country}.", False
        if x < 0.92:
            q = self.fill(f"{city} is the capital of {{which|what}} country|of {{which|what}} country is {city} the {{capital|capital city}}|which country has the capital {city}|of which country is {city} the capital|what country is {city} {{in|the capital of}}|where is {city}|in which country is {city}|"
                          f"in what country is {city}|what country has {city} as its capital|which country's capital is {city}|{city} is in which country")
            return q, f"{city} is the capital of {country}.", f"The country of {city}.", False
        q = self.fill(f"{{what|which}} language do {{people|the people|they|you}} {{speak|talk}} in {said}|what language {{is spoken|do people speak|do they speak}} in {said}|which language {{is spoken|do people speak}} in {said}|the language of {said}|what is the language of {said}")
        return q, f"People in {country} speak {lang}.", f"The language of {country}.", False

    def story(self):
        r = self.rng
        x = r.random()
        if x < 0.22:
            q = self.fill("{tell me|tell|write|write me|give me|make up|invent|I want|I would like|can you tell me|could you write} {a|a short|a little|a nice|a bedtime|another|one} story|"
                          "{a story please|story|once upon a time|a bedtime story|story time|a short tale|read me a story|tell me a tale|tell me something nice|write a short tale for children}")
            return q, STORIES["fox"], "A story about a fox.", False
        if x < 0.8:
            hero = r.choice(list(STORIES))
            text, known = STORIES[hero], True
        else:
            hero, known = (r.choice(OBJECTS) if self.chance(0.7) else self.invented()), False
            if hero in STORIES:
                text = STORIES[hero]
            else:
                text = f"Once there was a {hero} who wanted to see the world. The {hero} walked for a day and a night and found a friend. Then they went home together."
        an = "an" if hero[0] in "aeiou" else "a"
        hero_said = self.pick(f"{an} {hero}", f"the {hero}", f"{an} little {hero}" if an == "an" else f"a little {hero}", f"{an} {hero}", f"{hero}s")
        if hero == "moon" and self.chance(0.8):
            hero_said = "the moon"
        q = self.fill(f"{{tell me|tell|write|write me|give me|make up|I want|can you tell me|could you tell me|do you know|invent}} a {{short |little |nice |bedtime ||||}}{{story|tale}} {{about|with|on|of}} {hero_said}|story about {hero_said}|"
                      f"a story about {hero_said}|I would like to hear a story about {hero_said}|a bedtime story with {hero_said}|make me a tale about {hero_said}")
        return q, text, f"A story about {an} {hero}.".replace("a moon", "the moon"), not known

    def make_json(self):
        r = self.rng
        n, age, city = self.name(), r.randint(1, 99), self.city()
        lead = self.pick("give me JSON for", "write JSON for", "make a JSON object for", "a JSON object for", "return JSON for", "JSON for", "as JSON:", "describe in JSON:", "reply in JSON:", "respond using JSON:",
                         "output JSON:", "create JSON for", "give me a JSON object for", "produce JSON for", "I need JSON for", "answer in JSON:", "build a JSON object for", "json please:", "return a JSON object for")
        tail = self.pick(". Respond using JSON", " as JSON", " in JSON", ". Answer in JSON", ". Reply with JSON only", ", as a JSON object", ". Return JSON", ". Output JSON", " in JSON format", ". Use JSON", ". Respond in JSON", ". Give me JSON")

        def asked(what):
            return f"{lead} {what}" if self.chance(0.55) else what + tail

        kind = r.randint(0, 13)
        if kind <= 2:
            who = self.pick(f"a person named {n}, age {age}", f"{n} who is {age} years old", f"a person called {n} aged {age}", f"{n}, {age}", f"name {n} and age {age}", f"{n} is {age} years old", f"{n}, aged {age}", f"{n}, {age} years old",
                            f"a user {n} of age {age}", f"the person {n} ({age})", f"my name is {n} and I am {age}", f"a {age} year old named {n}")
            obj = {"name": n, "age": age}
        elif kind == 3:
            who = self.pick(f"a person named {n}, age {age}, from {city}", f"{n}, {age} years old, living in {city}", f"{n} is {age} and lives in {city}", f"name {n}, age {age}, city {city}", f"{n} ({age}) from {city}")
            obj = {"name": n, "age": age, "city": city}
        elif kind == 4:
            who = self.pick(f"{n} from {city}", f"{n} lives in {city}", f"a person named {n} in {city}", f"name {n} and city {city}", f"{n} who lives in {city}")
            obj = {"name": n, "city": city}
        elif kind == 5:
            c, thing = r.choice(list(dict.fromkeys(COLOURS.values()))), r.choice(THINGS)
            who = self.pick(f"a {c} {thing}", f"a {thing} that is {c}", f"the {c} {thing}", f"item {thing} with colour {c}", f"one {thing}, colour {c}")
            obj = {"item": thing, "colour": c}
        elif kind == 6:
            country, cap, lang = r.choice(CAPITALS)
            if self.chance(0.4):
                who = self.pick(f"the country {country}", f"tell me about {country}", f"{country}", f"facts about {country}")
                obj = {"name": country, "capital": cap, "languages": [lang]}
                return self.pick(asked(who), f"tell me about {country}{tail}"), json.dumps(obj), "They want JSON.", True
            who = self.pick(f"what is the capital of {country}", f"the capital of {country}", f"{country} and its capital", f"the country {country} with its capital", f"capital of {country}")
            obj = {"country": country, "capital": cap}
        elif kind == 7:
            a = r.randint(0, 10)
            b = r.randint(0, 10)
            who = self.pick(f"{a} + {b}", f"the sum of {a} and {b}", f"what is {a} plus {b}", f"{a} plus {b}")
            obj = {"a": a, "b": b, "sum": a + b}
        elif kind == 8:
            which = r.randint(0, 3)
            who, obj = [(self.pick("three colours", "a list of three colours", "some colours", "colors", "list 3 colors", "name three colors", "a list of colors"), {"colours": ["red", "green", "blue"]}),
                        (self.pick("the days of the week", "the week", "a list of the days", "list the days of the week"), {"days": DAYS}),
                        (self.pick("the seasons", "the four seasons", "list the seasons", "a list of seasons"), {"seasons": ["spring", "summer", "autumn", "winter"]}),
                        (self.pick("the planets", "a list of planets", "the eight planets", "list the planets"), {"planets": "Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune".split()})][which]
        elif kind == 9:
            m = r.randint(2, 10)
            who = self.pick(f"the numbers from 1 to {m}", f"count to {m}", f"numbers 1 to {m}", f"a list of the numbers 1 to {m}", f"list the numbers up to {m}")
            obj = {"numbers": list(range(1, m + 1))}
        elif kind == 10:
            who, obj = r.choice([(self.pick("axle", "the program axle", "what is axle"), {"name": "axle", "kind": "server", "language": "Go"}),
                                 (self.pick("the card", "the card's data", "the LLM-8850"), {"chip": "AX8850", "memory_gb": 8, "link": "PCIe"}),
                                 (self.pick("yourself", "pocket", "who are you", "the model pocket", "describe yourself"), {"name": "pocket", "kind": "language model"}),
                                 (self.pick("what color is the sky at different times of the day", "the colour of the sky by time of day", "sky colours by time of day"), {"morning": "blue", "noon": "blue", "evening": "red", "night": "black"})])
        elif kind == 11:
            if self.chance(0.5):
                q = self.pick("give me JSON", "reply with JSON", "write some JSON", "any JSON object", "an example of JSON", "return JSON", "show me a JSON object", "a small JSON please", "JSON", "make a JSON object", "give me an example JSON object", "respond in JSON")
                return q, '{"answer": "hello from pocket"}', "They want JSON.", False
            who = self.pick(f"{n} is {age} years old and is busy saving the world", f"{n} is {age} years old and busy", f"{n}, {age}, is busy", f"{n} is {age} and has no time")
            obj = {"name": n, "age": age, "available": False}
        else:
            keys = r.sample("size count width height price speed level weight id year score rank total speed limit port colour title city item owner status label user color animal".split(), r.randint(1, 3))
            keys = list(dict.fromkeys(keys))
            vals = [r.randint(0, 999) if self.chance(0.5) else (r.choice(THINGS) if self.chance(0.6) else self.invented()) for _ in keys]
            sep = self.pick(" ", " = ", ": ", "=", " is ")
            joined = [f"{k}{sep}{v}" for k, v in zip(keys, vals)]
            who = (", ".join(joined[:-1]) + " and " + joined[-1]) if len(joined) > 1 else joined[0]
            obj = dict(zip(keys, vals))
            return self.pick(asked(who), f"give me a JSON object with {who}", f"JSON with {who}", f"make JSON with {who}", f"write a JSON object with {who}", f"return JSON with {who}"), json.dumps(obj), "They want JSON.", True
        return asked(who), json.dumps(obj), "They want JSON.", True

    def unknown(self):
        r = self.rng
        people = "Napoleon|Einstein|Mozart|Shakespeare|Cleopatra|Newton|Beethoven|Picasso|Caesar|Gandhi|Lincoln|Columbus|Darwin|Galileo|Bach|Goethe|the president|the king|the queen of England|Elvis|Marie Curie|Plato|Elon Musk|Taylor Swift|Messi|the pope|Leonardo da Vinci"
        topics = ("quantum physics|photosynthesis|the French revolution|world war two|inflation|the stock market|black holes|gravity|DNA|vaccines|evolution|bitcoin|philosophy|chess|football|the Olympics|opera|jazz|cancer|democracy|"
                  "taxes|marketing|volcanoes|dinosaurs|electricity|magnetism|atoms|climate change|the Roman empire|yoga|algebra|calculus|poetry|architecture|fashion|Kubernetes|React|SQL|blockchain|the big bang|relativity|sharks|insurance|the economy|"
                  "string theory|economics|the human heart|penicillin|the Renaissance|socialism|nuclear power|tectonic plates|HTML|CSS|Java|Rust lifetimes|TCP|encryption|sourdough|baking|surfing|sailing|astrology")
        lang = "German|French|Spanish|Chinese|Latin|Japanese|Italian|Russian|Arabic|Dutch"
        q = self.fill("{" +
            f"who {{was|is|married|killed}} {{{people}}}|when {{was|did}} {{{people}}} {{born|die|live|become famous}}|tell me about {{{people}}}|what did {{{people}}} {{write|invent|do|discover|say}}|how old is {{{people}}}|where {{was|is}} {{{people}}} born|"
            f"{{what is|explain|explain to me|describe|tell me about|how does|what causes|give me a lecture on|write an essay about|what do you know about|summarize|define}} {{{topics}}}{{ work|}}|why is {{{topics}}} important|who {{invented|discovered|started}} {{{topics}}}|{{pros and cons|history|origin}} of {{{topics}}}|"
            f"{{translate|say}} {{this|hello world|good morning|I love you|the word house|my name}} {{to|into|in}} {{{lang}}}|how do you say {{thank you|cheese|goodbye|water|friend}} in {{{lang}}}|"
            "{write|show me|give me|create} {a Python function to sort a list|a regular expression for email|a program in C|a bash script|a SQL query|code for a web server|an HTML page|unit tests|a Java class|a sorting algorithm|a letter to my boss|my homework|an essay|a speech|a cover letter|a business plan|an email to my landlord}|"
            "{how do I|how to|how can I} {cook pasta|bake a cake|fix my car|lose weight|learn the piano|get rich|invest money|grow tomatoes|tie a tie|repair a bike|find a job|write a novel|meet people|quit smoking|fly a plane|build a house|play chess|cure a cold|become a doctor|change a tyre|paint a wall|make cheese|train a dog|sleep better|make coffee}|"
            "{what is|what's} the {population of {China|Berlin|India|the world|Texas}|height of Mount Everest|speed of light|price of gold|tallest building|longest river|deepest ocean|biggest animal|best film ever|best restaurant in town|distance to the moon|boiling point of iron|national anthem of Brazil|currency of Japan|value of pi|"
            "fastest car|oldest city|largest country|smallest bone|atomic number of iron|weight of an elephant|plot of Hamlet|stock price of Apple|exchange rate|score of the game|time in Tokyo|news today|latest news|lottery numbers|wifi password|name of my dog|name of my mother|cube of 12|melting point of gold}|"
            "{who won|who will win|who lost} {the world cup|the election|the war|the game last night|the Oscar|the race|the championship}|{what should I|what can I} {eat tonight|wear today|buy for my mother|watch on TV|cook for dinner|name my baby|read|study}|{am I|will I be|is my wife|why am I} {ill|rich|famous|happy|right|late}|"
            "{how many} {people live in Berlin|stars are in the sky|bones does a man have|countries are there|books did Goethe write|miles is it to Rome|calories has an apple|teeth has a shark|islands has Greece|grains of sand are there|languages exist|species exist|words are in the Bible}|"
            "{when} {did the war end|does the train leave|is Easter|was Rome founded|will I die|does the shop open|is the next eclipse|did man land on the moon|is my birthday|was the printing press invented|does school start}|"
            "{where} {is the nearest pharmacy|are my keys|can I buy milk|is the Eiffel tower|is Mount Fuji|can I park|do penguins live|is the Amazon|is my phone|do whales sleep}|"
            "{why} {do cats purr|do we dream|is the sea salty|do people lie|is ice slippery|do leaves fall|did Rome fall|are flamingos pink|do we yawn|is my code slow|do birds migrate|do stars twinkle|does bread rise}|"
            "{is} {there life on Mars|god real|coffee healthy|it safe to eat raw eggs|Pluto a planet|time travel possible|the earth flat|chocolate bad for dogs|my code correct|glass a liquid|a tomato a fruit}|"
            "{recommend|suggest} {a book|a film|a restaurant|a hotel in Rome|a gift|a laptop|a game|a phone}|{play|open|send|book|order|call} {some music|the window|an email|a flight|a pizza|my mother|the door|a taxi}|"
            "{solve|prove} {x^2 = 9|the equation 3x = 12|Fermat's theorem|this puzzle|the riddle|P = NP}|{what happened in|what was important in} {1492|1789|1914|1969|1848|2001|1066}|{fix|review|debug|refactor} {this code|my program|this function|my essay}|{summarize|rewrite|proofread} {this text|this article|the following text|my letter}|"
            "{is it going to|will it} {snow|be a good year|hurt|work out}|{what is|who is} {{{W}}}|{tell me about|explain|define} {{{W}}}|{what does|what do} {{W}} mean|{which|what} {wine goes with fish|car should I buy|bird is this|dog breed is best|film won the Oscar|year was the wall built|team is the best|city is the largest|metal is the heaviest}}"
            .replace("{{{W}}}", "WORD").replace("{{W}}", "WORD"))
        return q.replace("WORD", self.invented() if self.chance(0.6) else f"a {self.invented()}"), IDK, "I do not know this.", False

    def echo(self):
        r = self.rng
        x = r.random()
        if x < 0.15:
            return self.fill("{say|say this:|please say|write|repeat} {this is a test|\"this is a test\"|'this is a test'}|say this is a test"), "This is a test.", "They want me to repeat.", False
        n = self.pick(1, 1, 2, 2, 3, 3, 4, 5, 7, 10, 14)  # long ones teach copying fastest
        words = " ".join((r.choice(THINGS) if self.chance(0.6) else self.pick("red", "blue", "hello", "good", "one", "yes", "pocket", "axle", "small", "the", self.invented(), r.choice(NAMES), str(r.randint(0, 99)))) for _ in range(n))
        quote = self.pick("", "", '"', "'")
        q = self.pick("say", "repeat", "repeat after me:", "say:", "repeat the words", "echo", "repeat:", "just say", "say only", "say the word" if n == 1 else "say the words", "answer with", "reply with", "respond with", "write", "please say", "say exactly")
        return f"{q} {quote}{words}{quote}", words, "They want me to repeat.", True

    # -- conversations --------------------------------------------------------------------------------------------------------

    def question(self):
        """A question of any kind, as typed, that is not withheld: (question, answer, thought)."""
        while True:
            x = self.rng.random() * self.total
            for w, kind in self.kinds:
                x -= w
                if x < 0:
                    break
            q, a, thought, exact = kind()
            q = self.vary(q, exact)
            if normal(q) not in self.withheld and self.bare(q) not in self.withheld:
                return q, a, thought

    def bare(self, q):
        """The question without what vary() put around it, so that a withheld one does not come back with a please."""
        n = normal(q)
        for b in BEFORE:
            b = normal(b)
            if n.startswith(b + " "):
                n = n[len(b) + 1:]
                break
        for a in AFTER:
            a = normal(a)
            if a and n.endswith(" " + a):
                n = n[:-len(a) - 1]
                break
        return n

    def conversation(self):
        """One training example: the messages, the tools, whether to think, the thought and the answer (see chatml.py)."""
        from tools import tool_conversation
        r = self.rng
        x = r.random()
        if x < 0.13:
            return tool_conversation(self)
        messages = [{"role": "system", "content": r.choice(SYSTEMS)}] if self.chance(0.4) else []
        if x < 0.22:
            q, a, t = self.with_memory(messages)
        else:
            for _ in range(r.choice([0] * 14 + [1] * 4 + [2, 3])):
                q, a, _ = self.question()
                messages += [{"role": "user", "content": q}, {"role": "assistant", "content": a}]
            q, a, t = self.question()
        messages.append({"role": "user", "content": q})
        return {"messages": messages, "tools": [], "think": self.chance(0.5), "thought": t, "answer": a}

    def with_memory(self, messages):
        """A last question that only the turns before it explain; appends those turns."""
        r = self.rng

        def turn(q, a):
            messages.extend([{"role": "user", "content": self.vary(q, True)}, {"role": "assistant", "content": a}])

        def between():
            if self.chance(0.4):
                q, a, _ = self.question()
                messages.extend([{"role": "user", "content": q}, {"role": "assistant", "content": a}])

        kind = r.randint(0, 5)
        if kind == 0:
            n = self.name()
            turn(self.pick(f"my name is {n}", f"I am {n}", f"I'm {n}", f"hello, my name is {n}", f"hi, I am {n}", f"call me {n}", f"hello, I'm {n}", f"you can call me {n}"), f"Hello {n}!")
            between()
            q = self.pick("what is my name", "what's my name", "do you know my name", "who am I", "do you remember my name", "tell me my name", "what am I called", "say my name")
            return self.vary(q, True), f"Your name is {n}.", "They told me their name."
        if kind == 1:
            what = self.pick("colour", "number", "animal", "city", "food", "fruit", "word")
            v = str(r.randint(1, 99)) if what == "number" else self.city() if what == "city" else r.choice(list(COLOURS.values())) if what == "colour" else r.choice(THINGS)
            turn(self.pick(f"my favourite {what} is {v}", f"remember the {what} {v}", f"my {what} is {v}", f"I like the {what} {v}", f"the secret {what} is {v}", f"my favorite {what} is {v}"), f"I will remember: {v}.")
            between()
            q = self.pick(f"what is my favourite {what}", f"which {what} did I tell you", f"what {what} was it", f"what is the {what}", f"what was the {what}", f"do you remember the {what}", f"tell me the {what} again", f"what is my favorite {what}")
            return self.vary(q, True), f"It is {v}.", f"They told me the {what}."
        if kind == 2:
            (c1, k1, _), (c2, k2, _) = r.sample(CAPITALS, 2)
            turn(self.pick(f"what is the capital of {c1}", f"capital of {c1}", f"tell me the capital of {c1}"), f"The capital of {c1} is {k1}.")
            q = self.pick(f"and of {c2}", f"and {c2}", f"what about {c2}", f"how about {c2}", f"and the one of {c2}", f"and what of {c2}", f"{c2}", f"the same for {c2}")
            return self.vary(q, True), f"The capital of {c2} is {k2}.", f"The capital of {c2}."
        if kind == 3:
            s = r.randint(0, 20)
            a = r.randint(0, s)
            c, d = a, s - a
            e = r.randint(0, 20 - s)
            turn(self.pick(f"what is {c} plus {d}", f"{c}+{d}", f"how much is {c} + {d}"), f"{c} + {d} = {s}")
            if self.chance(0.5):
                q = self.pick(f"and plus {e}", f"now add {e}", f"plus {e}", f"add {e} to that", f"and {e} more", f"now plus {e}")
                return self.vary(q, True), f"{s} + {e} = {s + e}", f"The sum of {s} and {e}."
            f = r.randint(0, 20 - e)
            q = self.pick(f"and {e} plus {f}", f"and {e}+{f}", f"what about {e} + {f}", f"now {e} plus {f}")
            return self.vary(q, True), f"{e} + {f} = {e + f}", f"The sum of {e} and {f}."
        if kind == 4:
            while True:
                q, a, _ = self.question()
                if len(a) < 80:
                    break
            messages.extend([{"role": "user", "content": q}, {"role": "assistant", "content": a}])
            q = self.pick("say that again", "repeat that", "can you repeat that", "once more please", "what did you say", "again please", "could you say that again", "please repeat your answer", "sorry, what did you say", "repeat your last answer")
            return self.vary(q, True), a, "I say it again."
        n = self.name()
        q = self.pick(f"my name is {n}", f"I am {n}", f"I'm {n}", f"hello, my name is {n}", f"hi, I am {n}", f"call me {n}", f"hello, I'm {n}", f"hi, my name's {n}", f"this is {n}", f"you can call me {n}")
        return self.vary(q, True), f"Hello {n}!", "They tell me their name."
