# SPDX-License-Identifier: Apache-2.0
"""page.py - what glm_page.py, sparse_page.py and compare_page.py have in common: a page of HTML, all pictures in it, and its
tables as text, of what bench/page.sh or bench/compare has left in a folder, the first argument. A section that was not
measured, or failed, is named as such."""
import base64
import glob
import html
import os
import re
import statistics
import subprocess
import sys

OUT = sys.argv[1]
body, text = [], []


def median(numbers):
    numbers = [number for number in numbers if number is not None]
    return statistics.median(numbers) if numbers else None


def show(number, digits=1):
    if number is None:
        return "-"
    return number if isinstance(number, str) else "%.*f" % (digits, number)


def say(words):
    body.append("<p>%s</p>" % words)
    text.append(re.sub("<[^>]*>", "", words) + "\n")


def title(words):
    body.append("<h2>%s</h2>" % html.escape(words))
    text.append("## %s\n" % words)


def table(head, rows):
    cells = [[show(cell) for cell in row] for row in rows]
    body.append("<div class=wide><table><tr>%s</tr>" % "".join("<th>%s</th>" % html.escape(cell) for cell in head))
    for row in cells:
        body.append("<tr>%s</tr>" % "".join("<td>%s</td>" % html.escape(cell) for cell in row))
    body.append("</table></div>")
    plain = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in [head] + cells]
    text.append("| %s |\n|%s" % (plain[0], "---|" * len(head)))
    text.extend("| %s |" % row for row in plain[1:])
    text.append("")


class Section:
    """What page.sh's section() has left of one."""

    def __init__(self, name):
        self.at = os.path.join(OUT, name)
        self.status = self.read("status")
        self.is_good = self.status == "0"
        self.is_quick = os.path.exists(os.path.join(self.at, "quick"))

    def read(self, name):
        try:
            return open(os.path.join(self.at, name)).read().strip()
        except OSError:
            return ""


# Where it was measured; the page may be made elsewhere. Of bench/compare each result says it for itself.
CORES = int((Section(".").read("machine").split("\n") + ["0"])[1])


def numbered(prefix):
    """The N of all sections prefix-N, in order."""
    paths = glob.glob(os.path.join(OUT, prefix + "-*", "status"))
    return sorted(int(os.path.basename(os.path.dirname(path))[len(prefix) + 1:]) for path in paths)


def origin(*names):
    """The commands of these sections and the machine while they ran; False if there is nothing to show."""
    sections = {name: Section(name) for name in names}
    for name, section in sections.items():
        state = ""
        if not section.status:
            state = "not measured"
        elif not section.is_good:
            why = (section.read("output") if section.status == "77" else section.read("log")).splitlines()
            state = "not shown, exit status %s: %s" % (section.status, why[-1] if why else "")
        begin, end = section.read("begin").split("\n"), section.read("end").split("\n")
        quick = "QUICK: " if section.is_quick else ""
        body.append("<pre>%s%s</pre>" % (
            html.escape(section.read("command") or name),
            "\n# " + html.escape(quick + (state or "%s to %s, load %s to %s" % (begin[0], end[0], begin[-1], end[-1])))))
        if state or quick:
            text.append("%s: %s%s\n" % (name, quick, state or "little was measured, once"))
    return all(section.is_good for section in sections.values())


def shown(names):
    """Those of the sections that there is something to show of; what the others lack is said."""
    if not names:
        say("Not measured.")
        return []
    origin(*names)
    return [name for name in names if Section(name).is_good]


def picture(name, script, size="900,420"):
    """script: gnuplot; {} where the file goes. Embedded, so that the page is one file."""
    file = os.path.join(OUT, name + ".svg")
    subprocess.run(["gnuplot"], input="set terminal svg size %s; set output '%s'; set grid\n%s\n" % (size, file, script),
                   text=True, check=True)
    embed(file)


def embed(file):
    data = base64.b64encode(open(file, "rb").read()).decode()
    body.append('<img alt="%s" src="data:image/svg+xml;base64,%s">' % (os.path.basename(file), data))


def block(name, rows):
    """Data for gnuplot, what is missing as NaN."""
    lines = [" ".join("NaN" if cell is None else '"%s"' % cell if isinstance(cell, str) else "%.9g" % cell for cell in row)
             for row in rows]
    return "$%s << END\n%s\nEND\n" % (name, "\n".join(lines))


def curves(name, xs, series, words, log=""):
    """series: {title: [y of each x]}."""
    script = block("d", [[x] + [ys[i] for ys in series.values()] for i, x in enumerate(xs)])
    script += words + "\nset key above vertical maxrows 3; set xtics (%s)\n" % ", ".join('"%s" %g' % (x, x) for x in xs)
    script += "".join("set logscale %s\n" % axis for axis in log) + "plot " + ", ".join(
        "$d using 1:%d with linespoints linewidth 2 title '%s' noenhanced" % (i + 2, name) for i, name in enumerate(series))
    picture(name, script)


def bars(name, groups, series, label):
    """series: {title: [height above each of the groups]}, from 0."""
    script = block("d", [[group] + [ys[i] for ys in series.values()] for i, group in enumerate(groups)])
    script += ("set style data histograms; set style fill solid 0.6; set key above vertical maxrows 3; set yrange [0:*]; "
               "set ylabel '%s'; set xtics noenhanced\nplot " % label)
    picture(name, script + ", ".join("$d using %d:xtic(1) title '%s' noenhanced" % (i + 2, name) for i, name in enumerate(series)))


def output(words):
    """As it was printed."""
    body.append("<pre>%s</pre>" % html.escape(words))
    text.append("```\n%s\n```\n" % words)


def warn_quick():
    """At the top: what was measured by QUICK=1 is no figure."""
    found = sorted(os.path.basename(os.path.dirname(path)) for path in glob.glob(os.path.join(OUT, "*", "quick")))
    if not found:
        return ""
    words = "QUICK=1: little was measured, once, to see that it works. These are no figures: %s." % ", ".join(found)
    text.insert(0, words + "\n")
    body.insert(0, "<p class=quick>%s</p>" % html.escape(words))
    return "QUICK: "


def write(name, heading):
    """OUT/name.html and OUT/name.md."""
    heading = warn_quick() + heading
    with open(os.path.join(OUT, name + ".html"), "w") as file:
        file.write("<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'><title>%s</title><style>"
                   "body{font:15px sans-serif;max-width:1150px;margin:2em auto;padding:0 1em}table{border-collapse:collapse}"
                   "td,th{border:1px solid #bbb;padding:2px 8px;text-align:right}td:first-child{text-align:left}"
                   ".wide{overflow-x:auto}img{max-width:100%%;height:auto}.quick{background:#fc6;padding:1em}"
                   "p,h2{overflow-wrap:anywhere}"
                   "pre{background:#f3f3f3;padding:4px;white-space:pre-wrap;overflow-wrap:anywhere;font-size:12px}</style>\n" % heading +
                   "\n".join(body))
    with open(os.path.join(OUT, name + ".md"), "w") as file:
        file.write("\n".join(text))
    print(os.path.join(OUT, name + ".html"))
