//! Lines over two logarithmic axes, each with its name at its end.

use super::axis::Logarithmic;
use super::frame::{AXIS, FIGURE_WIDTH, HEAD, KEY, Key, MARGIN, MUTED, STRONG, WIDTH, Words};
use super::letters::width;
use crate::svg::{Anchor, Face, Paint, Point, Stroke};
use crate::unit::Unit;

const HEIGHT: f64 = 300.0;
/// Of the grid, at least.
const GRID_MIN: f64 = 400.0;
/// A piece of its line in front of a name.
const SAMPLE: f64 = 26.0;
const GAP: f64 = 8.0;
/// Between two names.
const APART: f64 = 17.0;
/// What a figure at the vertical axis needs, with room around it.
const FIGURE_HEIGHT: f64 = 20.0;

/// One line.
#[derive(Debug, Clone)]
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) is_ours: bool,
    pub(crate) points: Vec<Dot>,
}

/// One point of a line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Dot {
    /// Above 0, as `y`.
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// Why it may mislead; mostly empty. It is drawn as a ring then.
    pub(crate) remark: String,
}

/// An axis: what it is of, and the unit of its values.
pub(crate) struct Axis {
    pub(crate) label: String,
    pub(crate) unit: Unit,
}

/// Lines, of which ours are in shades of one colour and the others in greys. The vertical axis is what the title says.
///
/// The names stand to the right of the grid, each as near to the end of its line as the others let it, behind a piece of the line.
pub(crate) fn curves(words: &Words, x: &Axis, y: Unit, curves: &[Curve]) -> String {
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let (x_range, y_range) =
        (Logarithmic::over(all().map(|point| point.x)), Logarithmic::over(all().map(|point| point.y)));
    let widest = |widths: &mut dyn Iterator<Item = f64>| widths.fold(0.0, f64::max);
    let y_ticks = y_range.ticks((HEIGHT / FIGURE_HEIGHT) as usize);
    let figures = widest(&mut y_ticks.iter().map(|tick| width(&y.show(*tick), MUTED)));
    let names = widest(&mut curves.iter().map(|curve| width(&curve.name, face(curve))));
    let (left, behind) = (MARGIN + figures + GAP, GAP + SAMPLE + GAP + names + MARGIN);
    let key = Key {
        has_ours: curves.iter().any(|curve| curve.is_ours),
        has_others: curves.iter().any(|curve| !curve.is_ours),
        has_whiskers: false,
        remarks: remarks(curves),
    };
    let full = WIDTH.max(left + GRID_MIN + behind).max(words.width()).max(key.width()).ceil();
    let (right, top) = (full - behind, HEAD + GAP);
    // Names that need more room than the grid have it.
    let bottom = top + HEIGHT.max(APART * curves.len() as f64);
    let mut svg = words.picture(full, bottom + AXIS + KEY);
    let place = |dot: &Dot| Point {
        x: left + x_range.place(dot.x) * (right - left),
        y: bottom - y_range.place(dot.y) * (bottom - top),
    };
    let grid = Stroke { width: 1.0, dashes: "", paint: Paint::Grid };
    for value in x_range.ticks(((right - left) / FIGURE_WIDTH) as usize) {
        let at = left + x_range.place(value) * (right - left);
        svg.line(&[Point { x: at, y: top }, Point { x: at, y: bottom }], grid);
        svg.text(Point { x: at, y: bottom + 17.0 }, Anchor::Middle, MUTED, &x.unit.show(value));
    }
    for value in y_ticks {
        let at = bottom - y_range.place(value) * (bottom - top);
        svg.line(&[Point { x: left, y: at }, Point { x: right, y: at }], grid);
        svg.text(Point { x: left - GAP, y: at + 4.0 }, Anchor::End, MUTED, &y.show(value));
    }
    let label = format!("{} (both axes are logarithmic)", x.label);
    svg.text(Point { x: f64::midpoint(left, right), y: bottom + 37.0 }, Anchor::Middle, MUTED, &label);
    let strokes = strokes(curves);
    // Ours are drawn last, above the others.
    for is_ours in [false, true] {
        for (curve, stroke) in curves.iter().zip(&strokes).filter(|(curve, _)| curve.is_ours == is_ours) {
            svg.line(&curve.points.iter().map(place).collect::<Vec<Point>>(), *stroke);
            for dot in &curve.points {
                let (at, paint) = (place(dot), stroke.paint);
                if dot.remark.is_empty() { svg.dot(at, paint) } else { svg.ring(at, paint) }
            }
        }
    }
    let ends: Vec<f64> =
        curves.iter().map(|curve| curve.points.last().map_or(bottom, |point| place(point).y)).collect();
    for ((curve, stroke), y) in curves.iter().zip(&strokes).zip(apart(&ends, top, bottom)) {
        let from = right + GAP;
        if curve.points.len() > 1 {
            svg.line(&[Point { x: from, y }, Point { x: from + SAMPLE, y }], *stroke);
        }
        svg.dot(Point { x: from + SAMPLE / 2.0, y }, stroke.paint);
        let at = Point { x: from + SAMPLE + GAP, y: y + 4.0 };
        svg.text(at, Anchor::Start, face(curve), &curve.name);
    }
    key.draw(&mut svg, bottom + AXIS + 20.0);
    svg.finish()
}

/// Those of all points, each once.
fn remarks(curves: &[Curve]) -> String {
    let all = curves.iter().flat_map(|curve| &curve.points).flat_map(|dot| dot.remark.split(", "));
    let mut remarks: Vec<&str> = Vec::new();
    for remark in all.filter(|remark| !remark.is_empty()) {
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }
    remarks.join(" or ")
}

fn face(curve: &Curve) -> Face {
    if curve.is_ours { STRONG } else { MUTED }
}

/// Ours differ in shade and dashes, so that colours need not be told apart; so do the others.
fn strokes(curves: &[Curve]) -> Vec<Stroke> {
    const OURS: [(Paint, &str); 4] =
        [(Paint::Ours, ""), (Paint::OursPale, "8 4"), (Paint::OursDeep, "3 3"), (Paint::Ours, "10 3 2 3")];
    const OTHERS: [(Paint, &str); 5] = [
        (Paint::Other, ""),
        (Paint::OtherPale, "8 4"),
        (Paint::Other, "2 3"),
        (Paint::OtherPale, "10 3 2 3"),
        (Paint::Other, "14 4"),
    ];
    let (mut ours, mut others) = (OURS.into_iter().cycle(), OTHERS.into_iter().cycle());
    let stroke = |curve: &Curve| {
        let (width, next) = if curve.is_ours { (2.5, ours.next()) } else { (1.5, others.next()) };
        let (paint, dashes) = next.unwrap_or((Paint::Ink, ""));
        Stroke { width, dashes, paint }
    };
    curves.iter().map(stroke).collect()
}

/// The same places, moved so that no two are nearer than [`APART`], and in their order.
fn apart(places: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|one, other| places[*one].total_cmp(&places[*other]));
    let mut moved = places.to_vec();
    let mut next = top;
    for index in &order {
        moved[*index] = moved[*index].max(next);
        next = moved[*index] + APART;
    }
    let mut next = bottom;
    for index in order.iter().rev() {
        moved[*index] = moved[*index].min(next);
        next = moved[*index] - APART;
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::fits::assert_fits;
    use crate::svg::assert_well_formed;

    /// Of a point there.
    fn remark(x: f64) -> &'static str {
        match x {
            700.0 => "rate not reached, load's limit",
            5.0 => "load's limit",
            _ => "",
        }
    }

    fn draw(lines: &[(&str, &[(f64, f64)])]) -> String {
        let lines = lines.iter().enumerate().map(|(index, (name, points))| Curve {
            name: (*name).to_owned(),
            is_ours: index == 0,
            points: points.iter().map(|&(x, y)| Dot { x, y, remark: remark(x).to_owned() }).collect(),
        });
        let lines: Vec<Curve> = lines.collect();
        let words = Words { title: "t".to_owned(), subtitle: "s".to_owned(), verdicts: Vec::new() };
        curves(&words, &Axis { label: "x".to_owned(), unit: Unit::PerSecond }, Unit::Microseconds, &lines)
    }

    #[test]
    fn lines_are_drawn_also_without_points_and_nothing_is_cut_off() {
        let long = "W".repeat(60);
        let many = vec![("a", &[(1.0, 3.0)][..]); 40];
        let drawn = [
            draw(&[("a", &[(1.0, 3.0), (700.0, 0.02)]), ("b", &[])]),
            draw(&[]),
            draw(&[("a", &[(5.0, 5.0)])]),
            draw(&[(&long, &[(1e9, 1e9), (1e-9, 1e-9)])]),
            draw(&many),
        ];
        for text in drawn {
            assert_well_formed(&text);
            assert_fits(&text);
        }
    }

    #[test]
    fn points_that_may_mislead_are_rings_and_the_key_says_why() {
        let plain = draw(&[("a", &[(1.0, 3.0)])]);
        assert!(!plain.contains("<circle class=\"background\""), "{plain}");
        let marked = draw(&[("a", &[(1.0, 3.0), (700.0, 0.02)]), ("b", &[(5.0, 5.0)])]);
        // Two, and the one of the key.
        assert_eq!(marked.matches("<circle class=\"background\"").count(), 3, "{marked}");
        assert!(marked.contains(">rate not reached or load's limit<"), "{marked}");
        assert_fits(&marked);
    }

    #[test]
    fn names_are_apart_and_stay_in_their_order() {
        assert_eq!(apart(&[50.0, 52.0, 10.0], 0.0, 100.0), [50.0, 67.0, 10.0]);
        assert_eq!(apart(&[99.0, 98.0], 0.0, 100.0), [100.0, 83.0]);
        assert_eq!(apart(&[0.0, 0.0], 0.0, 100.0), [0.0, 17.0]);
    }

    #[test]
    fn no_two_lines_look_the_same() {
        let curve = |is_ours| Curve { name: String::new(), is_ours, points: Vec::new() };
        let strokes = strokes(&[true, true, true, false, false, false, false].map(curve));
        for (index, stroke) in strokes.iter().enumerate() {
            assert!(
                strokes[..index]
                    .iter()
                    .all(|other| other.dashes != stroke.dashes || other.paint != stroke.paint)
            );
        }
    }
}
