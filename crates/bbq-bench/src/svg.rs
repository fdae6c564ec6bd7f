//! As much of SVG as plots need: rectangles, lines, text, in colours for light and dark pages.
//!
//! Colours are attributes, which every program understands. A style sheet in the picture replaces them where the reader prefers
//! dark pages. The background is painted in both, so that a picture is legible on a page of the other kind, too.
//!
//! Invariant: what is written is well-formed, whatever the texts are.

use std::fmt::Write;

/// What a shape is, which decides its colour: class, colour on light pages, colour on dark pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Background,
    /// Text to read.
    Ink,
    /// Text that explains.
    Muted,
    Grid,
    /// The measured product, in shades of one colour.
    Ours,
    OursPale,
    OursDeep,
    /// What stands beside it, in greys.
    Other,
    OtherPale,
}

impl Paint {
    const ALL: [Paint; 9] = [
        Paint::Background,
        Paint::Ink,
        Paint::Muted,
        Paint::Grid,
        Paint::Ours,
        Paint::OursPale,
        Paint::OursDeep,
        Paint::Other,
        Paint::OtherPale,
    ];

    /// Shapes have three times the contrast of their background, text four and a half times.
    fn colours(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Paint::Background => ("background", "#ffffff", "#0d1117"),
            Paint::Ink => ("ink", "#1f2328", "#e6edf3"),
            Paint::Muted => ("muted", "#59636e", "#9aa4af"),
            Paint::Grid => ("grid", "#dfe4e9", "#2b323b"),
            Paint::Ours => ("ours", "#0b62c4", "#4c9cff"),
            Paint::OursPale => ("ours-pale", "#3d94e6", "#a8d1ff"),
            Paint::OursDeep => ("ours-deep", "#0a3069", "#2f74d8"),
            Paint::Other => ("other", "#6e7781", "#8b949e"),
            Paint::OtherPale => ("other-pale", "#8c959f", "#6e7681"),
        }
    }

    fn class(self) -> &'static str {
        self.colours().0
    }

    fn light(self) -> &'static str {
        self.colours().1
    }
}

/// Where a text's position is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn word(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

/// How a text looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Face {
    pub(crate) size: f64,
    pub(crate) is_bold: bool,
    pub(crate) paint: Paint,
}

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stroke {
    pub(crate) width: f64,
    /// Lengths of strokes and gaps; empty for a solid line.
    pub(crate) dashes: &'static str,
    pub(crate) paint: Paint,
}

/// A point, in pixels from the upper left corner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

/// A picture that grows.
#[derive(Debug)]
pub(crate) struct Svg {
    width: f64,
    height: f64,
    body: String,
}

impl Svg {
    /// Nothing but its background.
    pub(crate) fn new(width: f64, height: f64) -> Svg {
        let mut svg = Svg { width, height, body: String::new() };
        svg.rectangle(Point { x: 0.0, y: 0.0 }, Point { x: width, y: height }, Paint::Background);
        svg
    }

    /// From its upper left to its lower right corner.
    pub(crate) fn rectangle(&mut self, from: Point, to: Point, paint: Paint) {
        let (width, height) = ((to.x - from.x).max(0.0), (to.y - from.y).max(0.0));
        let (x, y, class, colour) = (from.x, from.y, paint.class(), paint.light());
        self.element(format_args!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
        ));
    }

    pub(crate) fn line(&mut self, points: &[Point], stroke: Stroke) {
        let points: Vec<String> =
            points.iter().map(|point| format!("{:.1},{:.1}", point.x, point.y)).collect();
        let Stroke { width, dashes, paint } = stroke;
        let (points, class, colour) = (points.join(" "), paint.class(), paint.light());
        let dashes =
            if dashes.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dashes}\"") };
        self.element(format_args!(
            "<polyline class=\"line {class}\" points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"{dashes}/>"
        ));
    }

    pub(crate) fn dot(&mut self, at: Point, paint: Paint) {
        let (x, y, class, colour) = (at.x, at.y, paint.class(), paint.light());
        self.element(format_args!(
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"
        ));
    }

    /// A dot that is not filled.
    pub(crate) fn ring(&mut self, at: Point, paint: Paint) {
        self.dot(at, paint);
        let (x, y, paint) = (at.x, at.y, Paint::Background);
        let (class, colour) = (paint.class(), paint.light());
        self.element(format_args!(
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\" fill=\"{colour}\"/>"
        ));
    }

    pub(crate) fn text(&mut self, at: Point, anchor: Anchor, face: Face, text: &str) {
        let Face { size, is_bold, paint } = face;
        let (x, y, text, class, colour) = (at.x, at.y, escaped(text), paint.class(), paint.light());
        let (anchor, weight) = (anchor.word(), if is_bold { " font-weight=\"bold\"" } else { "" });
        self.element(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\"{weight} fill=\"{colour}\">{text}</text>"
        ));
    }

    /// The whole document.
    pub(crate) fn finish(self) -> String {
        let Svg { width, height, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\">\n{}\n{body}</svg>\n",
            style()
        )
    }

    fn element(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String does not fail.
        let _ = writeln!(self.body, "{element}");
    }
}

/// The colours of dark pages.
fn style() -> String {
    let rules = Paint::ALL.map(|paint| {
        let (class, _, dark) = paint.colours();
        format!(".plot .{class}{{fill:{dark}}}.plot .line.{class}{{fill:none;stroke:{dark}}}")
    });
    format!("<style>@media (prefers-color-scheme:dark){{{}}}</style>", rules.concat())
}

/// For XML and HTML, in text and in attributes. Characters that XML does not know are left out.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            character if character.is_control() => {}
            character => out.push(character),
        }
    }
    out
}

/// Panics where tags do not close, or characters stand that must be written otherwise.
#[cfg(test)]
pub(crate) fn assert_well_formed(xml: &str) {
    let mut open = Vec::new();
    let mut rest = xml;
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        assert!(!text.contains('>'), "a stray > in {text:?}");
        let plain = text.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "").replace("&quot;", "");
        assert!(!plain.contains('&'), "a stray & in {text:?}");
        let end = at + rest[at..].find('>').expect("a tag ends");
        let tag = &rest[at + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "an attribute does not end in {tag:?}");
        let name = |tag: &str| tag.split([' ', '/']).next().unwrap_or_default().to_owned();
        if let Some(closing) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(closing), "{closing} closes what is not open");
        } else if !tag.ends_with('/') && !tag.starts_with('!') {
            open.push(name(tag));
        }
        rest = &rest[end + 1..];
    }
    assert_eq!(open, Vec::<String>::new(), "tags are left open");
    assert_eq!(rest.trim(), "");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much lighter the lighter of two colours is, as WCAG 2 defines it.
    fn contrast(one: &str, other: &str) -> f64 {
        let luminance = |colour: &str| {
            let channel = |at: usize| {
                let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
                if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
        };
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn everything_but_the_grid_is_legible_on_light_and_dark_pages() {
        let (_, white, black) = Paint::Background.colours();
        for paint in Paint::ALL.into_iter().filter(|paint| !matches!(paint, Paint::Background | Paint::Grid))
        {
            let (class, light, dark) = paint.colours();
            let least = if matches!(paint, Paint::Ink | Paint::Muted) { 4.5 } else { 3.0 };
            assert!(contrast(light, white) >= least, "{class}: {}", contrast(light, white));
            assert!(contrast(dark, black) >= least, "{class}: {}", contrast(dark, black));
        }
    }

    #[test]
    fn any_text_leaves_it_well_formed() {
        let mut svg = Svg::new(100.0, 50.0);
        let face = Face { size: 12.0, is_bold: true, paint: Paint::Ink };
        svg.text(Point { x: 1.0, y: 2.0 }, Anchor::Middle, face, "a < b & \"c\" > \u{0}d");
        let stroke = Stroke { width: 1.5, dashes: "3 4", paint: Paint::Ours };
        svg.line(&[Point { x: 0.0, y: 0.0 }, Point { x: 5.0, y: 5.0 }], stroke);
        svg.rectangle(Point { x: 9.0, y: 9.0 }, Point { x: 1.0, y: 1.0 }, Paint::Grid);
        svg.dot(Point { x: 3.0, y: 3.0 }, Paint::Other);
        svg.ring(Point { x: 4.0, y: 3.0 }, Paint::Ours);
        let text = svg.finish();
        assert_well_formed(&text);
        assert!(text.contains("a &lt; b &amp; &quot;c&quot; &gt; d"), "{text}");
        assert!(text.contains("width=\"0.0\""), "a rectangle has no negative width: {text}");
    }

    #[test]
    #[should_panic(expected = "tags are left open")]
    fn what_is_not_closed_is_found() {
        assert_well_formed("<svg><text>a</text>");
    }
}
