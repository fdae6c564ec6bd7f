//! A cell of a table: `median (least-most)`, the one value, or `-`.

use crate::spread::Spread;

/// What stands where a row has no figure.
pub(crate) const NONE: &str = "-";

/// Its text.
pub(crate) fn write(spread: &Spread, show: impl Fn(f64) -> String) -> String {
    let (median, least, most) = (show(spread.median), show(spread.least), show(spread.most));
    if least == most { median } else { format!("{median} ({least}-{most})") }
}

/// What it says; `None` if that is no figure.
pub(crate) fn read(text: &str) -> Option<Spread> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
    let Some((median, range)) = text.split_once(" (") else {
        let only = number(text)?;
        return Some(Spread { median: only, least: only, most: only });
    };
    let range = range.strip_suffix(')')?;
    // The first may be the sign of the least.
    let between = range.char_indices().skip(1).find(|(_, letter)| *letter == '-')?.0;
    let (least, most) = (number(&range[..between])?, number(&range[between + 1..])?);
    Some(Spread { median: number(median)?, least, most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let show = |value: f64| format!("{value:.1}");
        for (median, least, most) in [(2.5, 1.0, 4.0), (7.0, 7.0, 7.0), (-5.0, -7.5, -3.0), (0.0, -1.0, 0.5)]
        {
            let spread = Spread { median, least, most };
            assert_eq!(read(&write(&spread, show)), Some(spread));
        }
        assert_eq!(read("0 (0-1)"), Some(Spread { median: 0.0, least: 0.0, most: 1.0 }));
    }

    #[test]
    fn what_is_no_figure_is_none() {
        for text in [NONE, "", "noisy", "1 (2", "1 (2)", "1 (a-b)", "1 (2-3) 4", "inf", "1 ()"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
