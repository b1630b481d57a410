# SPDX-License-Identifier: Apache-2.0
"""page_read.py - what a reader sees of a page of HTML, and of a picture: which points are drawn under which words, by what
gnuplot was told. What is not known here is refused, so that nothing on a page goes unread."""
import base64
import html.parser
import os
import re

# ---- gnuplot ----

STYLES = r"(?: (?:linewidth|pointtype|pointsize|dashtype|linecolor rgb|offset) \S+)*"
SERIES = re.compile(r"(\$\w+)(?: using (\S+))?(?: with (\w+))?%s(?: title '([^']*)'| (notitle))?( noenhanced)?" % STYLES)


def split(words, at):
    """At what is neither quoted nor in brackets."""
    kept = re.sub(r"'[^']*'|\"[^\"]*\"|\([^()]*\)", lambda part: part.group().replace(at, "\0"), words)
    return [part.replace("\0", at).strip() for part in kept.split(at)]


def as_written(words):
    """Text in which gnuplot sees no markup."""
    assert not re.search(r"[_^{}@&~]", words), "drawn with markup: " + words
    return words


def cells(line):
    """A line of data; NaN is a point that is not drawn."""
    found = [quoted or word for quoted, word in re.findall(r'"([^"]*)"|(\S+)', line)]
    return [None if word == "NaN" else float(word) if re.fullmatch(r"[-+.\deE]+", word) else word for word in found]


class Picture:
    """panels: [title, label of x, label of y, the axes that are logarithmic, {series: points}] of each."""

    def __init__(self, script):
        self.lines, self.data, self.set, self.panels = iter(script.split("\n")), {}, {}, []
        for line in self.lines:
            block = re.fullmatch(r"(\$\w+) << (\w+)", line)
            if block:
                self.data[block[1]] = self.rows(block[2])
                continue
            for words in split(line, ";"):
                verb, _, rest = words.partition(" ")
                getattr(self, "do_" + verb if verb else "nothing")(rest)

    def nothing(self, _):
        pass

    def rows(self, end):
        found = []
        for line in self.lines:
            if line == end:
                return found
            found.append(cells(line))
        raise ValueError("data without an end")

    def do_set(self, words):
        what, _, value = words.partition(" ")
        if what in ("xlabel", "ylabel", "title"):
            value = as_written(re.fullmatch(r"'([^']*)'", value)[1])
        elif what == "logscale":
            what, value = "log " + value[0], True
        elif what == "xtics" and value != "noenhanced":
            assert all(float(label) == float(at) for label, at in re.findall(r'"([^"]*)" (\S+?)[,)]', value)), value
        else:
            assert what in ("terminal", "output", "grid", "style", "multiplot", "key", "xrange", "yrange", "xtics"), words
        self.set[what] = value

    def do_unset(self, words):
        assert words.split()[0] in ("key", "logscale", "multiplot"), words
        self.set[words if words == "key" else words.replace("logscale", "log")] = None

    def point(self, row, columns):
        tics = [int(column[5:-1]) for column in columns if column.startswith("xtic(")]
        values = [row[int(column) - 1] for column in columns if not column.startswith("xtic(")]
        xs, ys = ([], values) if "style" in self.set else (values[:1], values[1:])
        for axis, numbers in (("xrange", xs), ("yrange", ys)):
            low, high = re.fullmatch(r"\[(.*):(.*)\]", self.set.get(axis, "[*:*]")).groups()
            assert all((low == "*" or number >= float(low)) and (high == "*" or number <= float(high))
                       for number in numbers if isinstance(number, float)), "%s is not drawn" % row
        if tics:
            label = row[tics[0] - 1]
            values = [label if "noenhanced" in self.set.get("xtics", "") else as_written(label)] + values["style" not in self.set:]
        return values

    def do_plot(self, words):
        found = {}
        for part in split(words, ", "):
            source, using, way, title, no_title, plain = SERIES.fullmatch(part).groups()
            name = "(%s)" % way if no_title or self.set.get("key", "") is None else title if plain else as_written(title)
            assert name not in found, "two series are called " + name
            points = [self.point(row, using.split(":")) for row in self.data[source]]
            found[name] = [point for point in points if None not in point]
        log = "".join(axis for axis in "xy" if self.set.get("log " + axis))
        self.panels.append([*(self.set.get(what, "") for what in ("title", "xlabel", "ylabel")), log, found])


def gnuplot_put(folder):
    """A program called gnuplot that keeps what it is told; the PATH with which it is found."""
    os.makedirs(folder)
    with open(os.path.join(folder, "gnuplot"), "w") as file:
        file.write("#!/bin/sh\ntold=$(cat)\npath=${told#*set output \\'}\nprintf '%s\\n' \"$told\" >\"${path%%\\'*}\"\n")
    os.chmod(file.name, 0o755)
    return folder + ":" + os.environ["PATH"]


# ---- pages ----


class Page(html.parser.HTMLParser):
    """parts: (title, what is below it). That is ("p" or "pre", words), ("table", rows) or ("picture", name, what gnuplot was told)."""

    def __init__(self, markup):
        super().__init__()
        self.parts, self.words = [("", [])], ""
        self.feed(markup)

    def handle_starttag(self, tag, attributes):
        assert tag in "meta title style div h2 p pre table tr th td img".split(), tag
        below, of = self.parts[-1][1], dict(attributes)
        if tag == "table":
            below.append(("table", []))
        elif tag == "tr":
            below[-1][1].append([])
        elif tag == "img":
            data = of["src"].removeprefix("data:image/svg+xml;base64,")
            below.append(("picture", of["alt"], base64.b64decode(data).decode()))
        self.words = ""

    def handle_data(self, data):
        self.words += data

    def handle_endtag(self, tag):
        if tag == "h2":
            self.parts.append((self.words, []))
        elif tag in ("p", "pre"):
            self.parts[-1][1].append((tag, self.words))
        elif tag in ("th", "td"):
            self.parts[-1][1][-1][1][-1].append(self.words)


def as_text(parts):
    """Titles and tables as the page's text has them."""
    found = []
    for title, below in parts:
        found.extend(["## " + title] if title else [])
        for item in below:
            if item[0] == "table":
                found.extend("| %s |" % " | ".join(cell.replace("|", "\\|") for cell in row) for row in item[1])
    return found
