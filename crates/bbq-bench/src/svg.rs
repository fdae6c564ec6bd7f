//! As much of SVG 1.1 as plots need: rectangles, lines, text.
//!
//! Invariant: what is written is well-formed, whatever the texts are.

use std::fmt::Write;

/// Where a text's position is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
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
    /// Empty, on white: it may be shown on any page.
    pub(crate) fn new(width: f64, height: f64) -> Svg {
        let mut svg = Svg { width, height, body: String::new() };
        svg.rectangle(Point { x: 0.0, y: 0.0 }, Point { x: width, y: height }, "#fff");
        svg
    }

    /// From its upper left to its lower right corner.
    pub(crate) fn rectangle(&mut self, from: Point, to: Point, colour: &str) {
        let (width, height) = ((to.x - from.x).max(0.0), (to.y - from.y).max(0.0));
        let (x, y, colour) = (from.x, from.y, escaped(colour));
        self.element(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
        ));
    }

    pub(crate) fn line(&mut self, points: &[Point], colour: &str, width: f64) {
        let points: Vec<String> =
            points.iter().map(|point| format!("{:.1},{:.1}", point.x, point.y)).collect();
        let (points, colour) = (points.join(" "), escaped(colour));
        self.element(format_args!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"/>"
        ));
    }

    pub(crate) fn dot(&mut self, at: Point, colour: &str) {
        let (x, y, colour) = (at.x, at.y, escaped(colour));
        self.element(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"));
    }

    pub(crate) fn text(&mut self, at: Point, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y, text) = (at.x, at.y, escaped(text));
        self.element(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"));
    }

    /// The whole document.
    pub(crate) fn finish(self) -> String {
        let Svg { width, height, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n{body}</svg>\n"
        )
    }

    fn element(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String does not fail.
        let _ = writeln!(self.body, "{element}");
    }
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

    #[test]
    fn any_text_leaves_it_well_formed() {
        let mut svg = Svg::new(100.0, 50.0);
        svg.text(Point { x: 1.0, y: 2.0 }, Anchor::Middle, "a < b & \"c\" > \u{0}d");
        svg.line(&[Point { x: 0.0, y: 0.0 }, Point { x: 5.0, y: 5.0 }], "red\" onload=\"", 1.5);
        svg.rectangle(Point { x: 9.0, y: 9.0 }, Point { x: 1.0, y: 1.0 }, "#eee");
        svg.dot(Point { x: 3.0, y: 3.0 }, "blue");
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
