"""Line charts as SVG, with nothing but Python: panels side by side, a legend at the end of each line."""
import math

# Told apart without red against green (Okabe and Ito), and by their dashes.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#666666", "#e69f00", "#56b4e9", "#000000"]
DASHES = ["", "7 3", "2 2", "9 3 2 3", "4 2", "12 3", "1 3", "6 2 2 2"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 460, 300, 62, 122, 40, 46


class Panel:
    """series: {name: [(x, y), …]}; points that are None or not finite are left out."""

    def __init__(self, title, x, y, series, log_x=False, log_y=False, marks=False):
        self.title, self.x, self.y, self.marks = title, x, y, marks
        self.scale_x, self.scale_y = (math.log10 if log_x else float), (math.log10 if log_y else float)
        self.series = {n: [(a, b) for a, b in p if b is not None and math.isfinite(b)]
                       for n, p in series.items()}
        points = [p for s in self.series.values() for p in s]
        self.x_range = self.spread([self.scale_x(a) for a, _ in points], 0)
        self.y_range = self.spread([self.scale_y(b) for _, b in points], 0.05)

    @staticmethod
    def spread(values, margin):
        low, high = min(values, default=0), max(values, default=1)
        pad = (high - low) * margin or (0 if high > low else 0.5)
        return low - pad, high + pad

    def place(self, a, b):
        (x0, x1), (y0, y1) = self.x_range, self.y_range
        return (LEFT + (self.scale_x(a) - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - (self.scale_y(b) - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM))


def ticks(low, high, is_log, most=6):
    """Round numbers within [low, high]; of a logarithm 1, 2 and 5 times powers of ten."""
    if is_log:
        tens = range(math.floor(low), math.ceil(high) + 1)
        found = [m * 10.0 ** e for e in tens for m in (1, 2, 5)]
        found = [v for v in found if low - 1e-9 <= math.log10(v) <= high + 1e-9]
        return found if len(found) <= most + 2 else [v for v in found if f"{v:e}".startswith("1")]
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    while (high - low) / step > most:
        step *= 2 if f"{step:e}"[0] in "15" else 2.5
    return [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def number(v):
    return "0" if abs(v) < 1e-12 else f"{v:.4g}" if 1e-3 <= abs(v) < 1e5 else f"{v:.0e}"


def text(x, y, content, anchor="middle", size=11, more=""):
    content = content.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" {more}>{content}</text>'


def axes(p):
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    out = [text((LEFT + right) / 2, 22, p.title, size=13), text((LEFT + right) / 2, HEIGHT - 10, p.x),
           text(15, (TOP + bottom) / 2, p.y, more=f'transform="rotate(-90 15 {(TOP + bottom) / 2})"')]
    for v in ticks(*p.x_range, p.scale_x is math.log10):
        x = p.place(v, 10 ** p.y_range[0] if p.scale_y is math.log10 else p.y_range[0])[0]
        out += [f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="#ddd"/>', text(x, bottom + 15, number(v))]
    for v in ticks(*p.y_range, p.scale_y is math.log10):
        y = p.place(10 ** p.x_range[0] if p.scale_x is math.log10 else p.x_range[0], v)[1]
        out += [f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#ddd"/>',
                text(LEFT - 5, y + 4, number(v), "end")]
    out.append(f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#333"/>')
    return out


def lines(p):
    out, ends = [], []
    for i, (name, points) in enumerate(p.series.items()):
        if not points:
            continue
        colour, dash = COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]
        at = [p.place(a, b) for a, b in points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in at)
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.6" '
                   f'stroke-dasharray="{dash}"/>')
        if p.marks:
            out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{colour}"/>' for x, y in at]
        ends.append((at[-1][1], name, colour))
    lowest = TOP - 13
    for y, name, colour in sorted(ends):  # names stand at the ends of their lines, moved apart
        lowest = max(y, lowest + 13)
        out.append(text(WIDTH - RIGHT + 6, lowest + 4, name, "start", more=f'fill="{colour}"'))
    return out


def draw(path, panels, across=2):
    """Writes the panels to an SVG file, `across` of them in a row."""
    rows = -(-len(panels) // across)
    width, height = WIDTH * min(across, len(panels)), HEIGHT * rows
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           f'font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>']
    for i, p in enumerate(panels):
        out.append(f'<g transform="translate({i % across * WIDTH} {i // across * HEIGHT})">')
        out += axes(p) + lines(p) + ["</g>"]
    path.write_text("\n".join(out + ["</svg>"]) + "\n")
