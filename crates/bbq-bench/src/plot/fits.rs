//! Whether a plot has all of its texts inside.

use super::letters::width;
use crate::svg::{Face, Paint};

/// Panics where a text goes beyond the edge.
pub(crate) fn assert_fits(svg: &str) {
    let head = svg.lines().next().unwrap_or_default();
    let size: Vec<f64> = attribute(head, "viewBox")
        .expect("a view box")
        .split(' ')
        .map(|part| part.parse().unwrap())
        .collect();
    let texts: Vec<&str> = svg.lines().filter(|line| line.starts_with("<text ")).collect();
    assert!(!texts.is_empty(), "there is no text");
    for line in texts {
        let number = |name| {
            attribute(line, name).unwrap_or_else(|| panic!("{name} of {line}")).parse::<f64>().unwrap()
        };
        let text = line.split_once('>').unwrap().1.strip_suffix("</text>").unwrap();
        let text =
            text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
        let face = Face { size: number("font-size"), is_bold: line.contains("\"bold\""), paint: Paint::Ink };
        let (x, wide) = (number("x"), width(&text, face));
        let start = match attribute(line, "text-anchor").unwrap() {
            "start" => x,
            "middle" => x - wide / 2.0,
            _ => x - wide,
        };
        assert!(
            start >= 0.0 && start + wide <= size[2],
            "cut off at {start:.0} or {:.0}: {line}",
            start + wide
        );
        // Letters are at most so far above and below the line that they stand on.
        let (above, below) = (number("y") - face.size, number("y") + face.size * 0.3);
        assert!(above >= 0.0 && below <= size[3], "cut off above or below: {line}");
    }
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    tag.split_once(&format!(" {name}=\""))?.1.split('"').next()
}

#[test]
#[should_panic(expected = "cut off at")]
fn a_text_that_is_cut_off_is_found() {
    assert_fits(
        "<svg viewBox=\"0 0 50 50\">\n<text x=\"10\" y=\"20\" text-anchor=\"start\" font-size=\"12\">a long text</text>\n</svg>",
    );
}
