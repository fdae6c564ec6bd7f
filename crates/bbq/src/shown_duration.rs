//! Times for people: two units at most.

use std::time::Duration;

/// `12 s`, `3 min 5 s`, `2 h`; milliseconds below a second.
pub(crate) fn duration(duration: Duration) -> String {
    let whole = duration.as_secs();
    if whole == 0 {
        return format!("{} ms", duration.as_millis());
    }
    if whole < 60 {
        let places = usize::from(whole < 10);
        return format!("{:.places$} s", duration.as_secs_f64());
    }
    let (large, small) = match whole {
        86_400.. => ((86_400, "d"), (3600, "h")),
        3600.. => ((3600, "h"), (60, "min")),
        _ => ((60, "min"), (1, "s")),
    };
    let (head, rest) = (whole / large.0, whole % large.0 / small.0);
    if rest > 0 { format!("{head} {} {rest} {}", large.1, small.1) } else { format!("{head} {}", large.1) }
}
