//! Which part of the screen gets how many lines.

use super::model::PANES;

/// A table with its head and one row.
const PANE_MIN: usize = 2;
/// With fewer lines than this, the tables are worth more than the ledger.
const ROWS_FOR_SUMS: usize = 9;

/// What the parts would like.
pub(super) struct Wanted {
    pub(super) height: usize,
    pub(super) sums: usize,
    pub(super) findings: usize,
    /// Each table's rows, without its head.
    pub(super) rows: [usize; PANES],
    /// The table in focus; none if the findings are.
    pub(super) focus: Option<usize>,
    pub(super) has_footer: bool,
}

/// Lines of each part. Their sum is at most the height; the first line is the title.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Heights {
    pub(super) findings: usize,
    pub(super) sums: usize,
    pub(super) panes: [usize; PANES],
    pub(super) footer: usize,
}

pub(super) fn heights(wanted: &Wanted) -> Heights {
    let footer = usize::from(wanted.has_footer && wanted.height >= 6);
    let mut rest = wanted.height.saturating_sub(1 + footer);
    let sums = if rest >= ROWS_FOR_SUMS { wanted.sums } else { 0 };
    rest -= sums;
    // The problems come before the tables, but leave the heads of all tables, or one table, on the screen.
    let least = if rest > PANES * PANE_MIN { PANES * PANE_MIN } else { PANE_MIN };
    let for_findings =
        if wanted.focus.is_none() { rest } else { rest.saturating_sub(least).max(rest.min(1)) };
    let findings = wanted.findings.min(for_findings);
    let panes = of_panes(rest - findings, wanted);
    Heights { findings, sums, panes, footer }
}

fn of_panes(mut rest: usize, wanted: &Wanted) -> [usize; PANES] {
    let mut panes = [0; PANES];
    let full = |pane: usize| wanted.rows[pane] + 1;
    let first = wanted.focus.unwrap_or(0);
    let order = || std::iter::once(first).chain((0..PANES).filter(move |pane| *pane != first));
    if rest < PANES * PANE_MIN {
        panes[first] = rest.min(full(first));
        return panes;
    }
    for pane in order() {
        panes[pane] = PANE_MIN.min(full(pane));
        rest -= panes[pane];
    }
    for pane in order() {
        let more = (full(pane) - panes[pane]).min(rest);
        panes[pane] += more;
        rest -= more;
    }
    panes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_height_is_too_small_and_none_is_exceeded() {
        for height in 0..60 {
            for findings in [0, 1, 5, 40] {
                for focus in [None, Some(0), Some(3)] {
                    let rows = [1, 9, 0, 30];
                    let wanted = Wanted { height, sums: 4, findings, rows, focus, has_footer: true };
                    let heights = heights(&wanted);
                    let sum = 1
                        + heights.findings
                        + heights.sums
                        + heights.footer
                        + heights.panes.iter().sum::<usize>();
                    assert!(sum <= height.max(1), "{height} {heights:?}");
                    assert!(findings == 0 || height < 2 || heights.findings > 0, "{height} {heights:?}");
                }
            }
        }
    }

    #[test]
    fn at_24_lines_five_problems_with_remedies_and_all_tables_have_room() {
        let wanted = Wanted {
            height: 24,
            sums: 4,
            findings: 16,
            rows: [2, 3, 2, 6],
            focus: Some(0),
            has_footer: true,
        };
        let heights = heights(&wanted);
        assert_eq!(heights.findings, 10);
        assert!(heights.panes.iter().all(|height| *height >= PANE_MIN), "{heights:?}");
    }
}
