"""Conversations with tools: what is offered, what is asked, the call, and the answer from the tool's result."""

import json

# Each kind of tool: names it goes by, its parameters (names, JSON type), and how people ask for it.
VERBS = "get fetch set start stop open close read write find check create delete update list move send show reset measure".split()
NOUNS = "door window lamp pump fan order ticket user file note task event price score level sensor heater camera valve motor robot job record account invoice device battery".split()


def prop(kind, text=None, enum=None):
    out = {"type": kind}
    if text:
        out["description"] = text
    if enum:
        out["enum"] = enum
    return out


class Maker:
    """Draws one tool with a question for it, the right arguments and a result; everything by the corpus's generator."""

    def __init__(self, corpus):
        self.c, self.r = corpus, corpus.rng

    def weather(self):
        c, p = self.c, self.c.pick
        name = p("get_weather", "get_current_weather", "get_weather", "get_current_weather", "weather", "current_weather", "fetch_weather", "getWeather", "weather_lookup", "get_forecast")
        param = p("city", "location", "city", "location", "place")
        props = {param: prop("string", p(None, "The city", "The name of the city", "The location to get the weather for, e.g. San Francisco, CA", "City name"))}
        required, city, q_unit = [param], c.city(), ""
        args = {param: city}
        if c.chance(0.3):
            unit = p("unit", "format", "units")
            props[unit] = prop("string", p(None, "The unit", "The format to return the weather in, e.g. 'celsius' or 'fahrenheit'"), ["celsius", "fahrenheit"])
            if c.chance(0.7):
                required.append(unit)
                args[unit] = "celsius"
                if c.chance(0.3):
                    args[unit] = p("celsius", "fahrenheit")
                    q_unit = " in " + args[unit]
        day = p("", "", " today", " now", " right now")
        ask = lambda x: p(f"what is the weather in {x}", f"what's the weather like in {x}", f"how is the weather in {x}", f"weather in {x}", f"tell me the weather in {x}", f"is it raining in {x}", f"what is the weather{day} in {x}",
                          f"get the weather for {x}", f"I want to know the weather in {x}", f"how warm is it in {x}", f"what's the weather in {x}{day}", f"do I need an umbrella in {x}", f"check the weather in {x}", f"weather for {x}{day}",
                          f"will it rain in {x}", f"what is the current weather in {x}", f"what is the weather like{day} in {x}", f"please look up the weather in {x}")
        deg, sky = self.r.randint(-10, 39), p("sunny", "cloudy", "rainy", "windy", "snow", "foggy", "clear sky", "light rain", "storm")
        result = p(f"{deg} degrees and {sky}", f"{sky}, {deg} C", json.dumps({"temperature": deg, "condition": sky}), f"{deg}°C, {sky}", json.dumps({"temp": deg, "sky": sky}), sky, f"{deg} °C", f"It is {sky}.", f"Sunny, {deg}C",
                   json.dumps({param: city, "temperature": deg, "conditions": sky}), f"{deg} degrees", json.dumps({"temperature": f"{deg}°C"}))
        desc = p("Get the current weather", "Get the weather", "Get the current weather for a location", "Get the weather of a city", "The weather now", "Returns the weather", None)
        return name, desc, props, required, args, ask(city) + q_unit, result, (param, lambda x: ask(x) + q_unit)

    def arithmetic(self):
        c, p, r = self.c, self.c.pick, self.r
        op = p("add", "add", "multiply", "subtract")
        name = {"add": p("add", "add_two_numbers", "sum", "add_numbers", "addition"), "multiply": p("multiply", "multiply_numbers", "product", "mul"), "subtract": p("subtract", "subtract_two_numbers", "minus", "sub")}[op]
        x, y = p(("a", "b"), ("a", "b"), ("x", "y"), ("first", "second"), ("num1", "num2"))
        a, b = (r.randint(0, 20), r.randint(0, 20)) if c.chance(0.4) else (r.randint(0, 999), r.randint(0, 999))
        kind = p("integer", "number")
        if op == "add":
            q, res = p(f"what is {a} plus {b}", f"add {a} and {b}", f"{a} + {b}", f"what is {a} + {b}", f"how much is {a} plus {b}", f"sum {a} and {b}", f"calculate {a} plus {b}", f"what is the sum of {a} and {b}", f"what is {a} added to {b}"), a + b
        elif op == "multiply":
            q, res = p(f"what is {a} times {b}", f"multiply {a} by {b}", f"{a} * {b}", f"what is {a} x {b}", f"multiply {a} and {b}", f"how much is {a} times {b}"), a * b
        else:
            q, res = p(f"what is {a} minus {b}", f"{a} - {b}", f"what is {a} - {b}", f"how much is {a} minus {b}", f"calculate {a} minus {b}"), a - b
        desc = p({"add": "Add two numbers", "multiply": "Multiply two numbers", "subtract": "Subtract two numbers"}[op], None)
        return name, desc, {x: prop(kind, p(None, "The first number")), y: prop(kind, p(None, "The second number"))}, [x, y], {x: a, y: b}, q, str(res), None

    def calculator(self):
        p, r = self.c.pick, self.r
        e = f"{r.randint(1, 999)} {p('+', '-', '*', '/')} {r.randint(1, 99)}"
        name, param = p("calculator", "calculate", "calc", "evaluate"), p("expression", "expr", "formula")
        return name, p("Evaluate an expression", "A calculator", None), {param: prop("string")}, [param], {param: e}, p(f"what is {e}", f"calculate {e}", f"compute {e}", f"how much is {e}", e), str(r.randint(1, 9999)), None

    def time(self):
        c, p, r = self.c, self.c.pick, self.r
        name = p("get_time", "get_current_time", "current_time", "time", "get_time_in", "clock")
        t = f"{r.randint(0, 23):02d}:{r.randint(0, 59):02d}"
        result = p(t, json.dumps({"time": t}), f"It is {t}.")
        if c.chance(0.4):
            return name, p("Get the current time", "The time now", None), {}, [], {}, p("what time is it", "what is the time", "tell me the time", "what's the time", "the time please", "do you know what time it is"), result, None
        param, city = p("city", "location", "timezone", "place"), c.city()
        ask = lambda x: p(f"what time is it in {x}", f"what is the time in {x}", f"tell me the time in {x}", f"time in {x}", f"current time in {x}", f"what's the time in {x}")
        return name, p("Get the current time", "The time in a city", None), {param: prop("string", p(None, "The city"))}, [param], {param: city}, ask(city), result, (param, ask)

    def search(self):
        c, p = self.c, self.c.pick
        name, param = p("search", "web_search", "search_web", "lookup", "find"), p("query", "q", "text")
        x = " ".join(p(*c_words(c)) for _ in range(self.r.randint(1, 3)))
        return name, p("Search the web", "Find pages", None), {param: prop("string", p(None, "What to search for"))}, [param], {param: x}, p(f"search for {x}", f"search the web for {x}", f"look up {x}", f"find {x}", f"google {x}", f"please search for {x}"), p("No results.", "3 pages found", f"{x}: see page 1"), None

    def home(self):
        c, p = self.c, self.c.pick
        from corpus import ROOMS
        room = p(*ROOMS)
        if c.chance(0.5):
            state = p("on", "off")
            name, a, b = p("set_light", "switch_light", "light", "control_light"), p("room", "location", "area"), p("state", "value", "mode")
            return name, p("Switch a light", None), {a: prop("string"), b: prop("string", None, ["on", "off"])}, [a, b], {a: room, b: state}, p(f"turn {state} the light in the {room}", f"switch the {room} light {state}", f"light {state} in the {room}", f"turn the {room} light {state}", f"please switch {state} the light in the {room}"), p("ok", "done", json.dumps({"ok": True})), None
        if c.chance(0.5):
            name, a, n = p("set_timer", "start_timer", "timer"), p("minutes", "duration"), self.r.randint(1, 60)
            return name, p("Set a timer", None), {a: prop("integer", p(None, "Minutes"))}, [a], {a: n}, p(f"set a timer for {n} minutes", f"timer {n} minutes", f"start a timer of {n} minutes", f"wake me in {n} minutes", f"remind me in {n} minutes"), p("ok", "timer set"), None
        name, a, b, n = p("set_temperature", "set_heating", "heat"), p("room", "area"), p("degrees", "temperature"), self.r.randint(10, 30)
        return name, p("Set the temperature of a room", None), {a: prop("string"), b: prop("integer")}, [a, b], {a: room, b: n}, p(f"set the {room} to {n} degrees", f"heat the {room} to {n} degrees", f"make it {n} degrees in the {room}", f"{n} degrees in the {room}"), p("ok", "done"), None

    def message(self):
        c, p = self.c, self.c.pick
        n = c.name()
        if c.chance(0.5):
            to = f"{n.lower()}@example.com" if c.chance(0.5) else n
            name, a = p("send_email", "send_mail", "email", "write_email"), p("to", "recipient", "address")
            return name, p("Send an email", None), {a: prop("string")}, [a], {a: to}, p(f"send an email to {to}", f"write an email to {to}", f"email {to}", f"send a mail to {to}"), p("sent", "ok", "Email sent."), None
        text = " ".join(p(*c_words(c)) for _ in range(self.r.randint(1, 3)))
        name, a, b = p("send_message", "message", "send_sms", "text"), p("to", "name", "recipient"), p("text", "message", "body")
        return name, p("Send a message", None), {a: prop("string"), b: prop("string")}, [a, b], {a: n, b: text}, p(f"tell {n}: {text}", f"send {n} the message {text}", f"send the message {text} to {n}", f"message {n}: {text}"), p("sent", "ok"), None

    def card(self):
        p, r = self.c.pick, self.r
        name = p("card_temperature", "get_card_temperature", "card_status", "get_temperature", "read_temperature")
        return name, p("Read the card's temperature", None), {}, [], {}, p("how hot is the card now", "what is the card's temperature now", "read the card's temperature", "check the card", "temperature of the card now", "how warm is the card right now"), p(f"{r.randint(40, 99)} C", json.dumps({"celsius": r.randint(40, 99)}), f"{r.randint(40, 99)} °C"), None

    def currency(self):
        p, r = self.c.pick, self.r
        cur = ["EUR", "USD", "GBP", "JPY", "CHF", "CAD", "AUD", "SEK"]
        n, (x, y) = r.randint(1, 999), r.sample(cur, 2)
        return p("convert_currency", "convert", "exchange"), p("Convert money", None), {"amount": prop("number"), "from": prop("string"), "to": prop("string")}, ["amount", "from", "to"], {"amount": n, "from": x, "to": y}, p(f"convert {n} {x} to {y}", f"how much is {n} {x} in {y}", f"{n} {x} in {y}", f"exchange {n} {x} for {y}"), f"{r.randint(1, 999)} {y}", None

    def generic(self):
        c, p, r = self.c, self.c.pick, self.r
        noun = p(*NOUNS) if c.chance(0.8) else c.invented()
        verb = p(*VERBS)
        name = p(f"{verb}_{noun}", f"{verb}_{noun}", f"{verb}{noun.capitalize()}", f"{noun}_{verb}", f"{verb}_{noun}_{p('info', 'status', 'name', 'value')}")
        param = p("id", "name", "value", "key", "number", "title", "path", "text", "city", "user", "symbol", "date", "amount")
        if param in ("number", "amount", "value") or c.chance(0.2):
            val, kind = r.randint(0, 999), "integer"
        else:
            val, kind = p(c.invented(), c.name(), f"{c.invented()}.txt", *c_words(c)[:3]), "string"
        q = p(f"use {name} with {param} {val}", f"call {name} with {param} {val}", f"call the tool {name} with {val}", f"use the tool {name} for {val}", f"{verb} the {noun} with {param} {val}", f"{verb} {noun} {val}", f"please {verb} the {noun} {val}", f"{verb} the {noun} {val}", f"run {name} on {val}")
        res = p("ok", "done", str(r.randint(0, 999)), c.invented(), json.dumps({"status": "ok"}), json.dumps({param: val}), json.dumps({"result": r.randint(0, 999)}), f"{noun} {c.invented()}")
        return name, p(f"{verb.capitalize()} the {noun}", f"{verb.capitalize()} a {noun}", None), {param: prop(kind, p(None, None, f"The {param}"))}, [param], {param: val}, q, res, None

    def any(self):
        return self.c.pick(self.weather, self.weather, self.weather, self.arithmetic, self.calculator, self.time, self.search, self.home, self.message, self.card, self.currency, self.generic, self.generic, self.generic)()


def c_words(c):
    from corpus import THINGS
    return [c.rng.choice(THINGS), c.rng.choice(THINGS), c.invented(), c.name(), c.rng.choice(["red", "good", "news", "music", "recipes", "axle", "card", "hello", "late", "train times"])]


def offer(c, name, desc, props, required):
    """The tool as a request gives it; clients differ in the order and presence of keys."""
    params = {"type": "object"}
    order = c.rng.random()
    if order < 0.6:
        params["properties"] = props
        if required or c.chance(0.3):
            params["required"] = required
    else:
        params["required"] = required
        params["properties"] = props
    f = {"name": name}
    if desc:
        f["description"] = desc
    f["parameters"] = params
    return {"type": "function", "function": f}


def call_text(name, args):
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": args}, ensure_ascii=False) + "\n</tool_call>"


def answer_from(name, result):
    return f"{name} says: {result}"


def tool_conversation(c):
    from corpus import SYSTEMS
    r, m = c.rng, Maker(c)
    name, desc, props, required, args, q, result, more = m.any()
    tools = [offer(c, name, desc, props, required)]
    names = {name}
    for _ in range(r.choice([0, 0, 0, 1, 1, 2])):
        n2, d2, p2, r2, *_ = m.any()
        if n2 not in names and p2 != props:
            names.add(n2)
            tools.insert(r.randint(0, len(tools)), offer(c, n2, d2, p2, r2))
    messages = [{"role": "system", "content": r.choice(SYSTEMS)}] if c.chance(0.3) else []
    think = c.chance(0.5)
    base = {"messages": messages, "tools": tools, "think": think, "compact": c.chance(0.25)}
    x = r.random()
    if x < 0.2:
        # Tools are offered and not needed.
        while True:
            q, a, t = c.question()
            if "weather" not in q and "time" not in q and "+" not in q and "plus" not in q and a != "I don't know. I only learned sums up to 20." and "sum" not in q and "temperature" not in q and " + " not in a:
                break
        messages.append({"role": "user", "content": q})
        return base | {"thought": t, "answer": a}
    if c.chance(0.15):
        q0, a0, _ = c.question()
        messages += [{"role": "user", "content": q0}, {"role": "assistant", "content": a0}]
    calls, results = [(name, args)], [result]
    if more and c.chance(0.2):
        param, ask = more
        city = args[param]
        other = c.city()
        if other != city:
            calls.append((name, args | {param: other}))
            results.append(result if c.chance(0.3) else c.pick("12 degrees", "sunny", "rain, 8 C", "15:30", "cloudy", "20 °C"))
            q = ask(c.pick(f"{city} and {other}", f"{city} and in {other}"))
    messages.append({"role": "user", "content": c.vary(q, True)})
    call = "\n".join(call_text(n, a) for n, a in calls)
    thought = f"I call {name}."
    if x < 0.62:
        return base | {"thought": thought, "answer": call}
    turn = {"role": "assistant", "content": call}
    if think and c.chance(0.6):
        turn["thought"] = thought
    messages.append(turn)
    messages.append({"role": "tool", "results": results})
    if c.chance(0.08):
        results[:] = [c.pick("error: not found", "error", "timeout", json.dumps({"error": "not found"}))] * len(results)
    answer = "\n".join(answer_from(calls[i][0], res) for i, res in enumerate(results))
    return base | {"thought": "I have the result.", "answer": answer}
