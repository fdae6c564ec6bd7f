//! Draws what the adaptive reconnect does in virtual time: docs/plots/reconnect.svg.
//!
//!     cargo run --release -p bbq-client --example reconnect_plot > docs/plots/reconnect.svg

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use bbq_client::{AdaptiveReconnect, Reconnect};

/// The server is away in the first of these seconds, and takes and acknowledges again in the others.
const AWAY: Duration = Duration::from_secs(6);
const END: Duration = Duration::from_secs(8);
/// Between two acknowledgements once it is back.
const ACKNOWLEDGED_EVERY: Duration = Duration::from_millis(200);
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 200.0;
const MARGIN: f64 = 46.0;
/// The colours of dark pages; those of light ones are attributes.
const STYLE: &str = "<style>@media (prefers-color-scheme:dark){.page{fill:#0d1117}.away{fill:#3a2320}text{fill:#e6edf3}\
path.wait{stroke:#ff8a73}text.wait{fill:#ff8a73}path.attempts{stroke:#4c9cff}text.attempts{fill:#4c9cff}\
.marks{stroke:#e6edf3}}</style>";

/// A line of steps through the points, from one to the next.
fn steps(points: &[(Duration, f64)], most: f64) -> String {
    let mut path = String::new();
    let mut before = None;
    for &(at, value) in points {
        let (x, y) = (x(at), MARGIN + HEIGHT * (1.0 - value / most));
        // Writing to a String cannot fail.
        let _written = match before {
            None => write!(path, "M{x:.1} {y:.1}"),
            Some(before) => write!(path, "L{x:.1} {before:.1}L{x:.1} {y:.1}"),
        };
        before = Some(y);
    }
    path
}

fn x(at: Duration) -> f64 {
    MARGIN + WIDTH * at.as_secs_f64() / END.as_secs_f64()
}

fn main() -> std::io::Result<()> {
    let set = Reconnect::default();
    let mut reconnect = AdaptiveReconnect::new(set, 42);
    let (mut waits, mut attempts, mut marks) = (Vec::new(), Vec::new(), String::new());
    let mut at = Duration::ZERO;
    while at < END {
        waits.push((at, reconnect.now().wait.as_secs_f64()));
        attempts.push((at, f64::from(reconnect.now().attempts)));
        if at < AWAY {
            let _written = write!(marks, "M{:.1} {:.1}v6", x(at), MARGIN + HEIGHT + 4.0);
            at += reconnect.failed();
        } else {
            reconnect.delivered();
            at += ACKNOWLEDGED_EVERY;
        }
    }
    let (right, bottom, full) = (MARGIN + WIDTH, MARGIN + HEIGHT, WIDTH + 2.0 * MARGIN);
    let (wait_most, attempts_most) = (set.wait_max.as_secs_f64(), f64::from(set.attempts));
    let seconds: String = (0..=END.as_secs())
        .map(|second| {
            format!(
                r#"<text x="{:.1}" y="{}">{second} s</text>"#,
                x(Duration::from_secs(second)),
                bottom + 26.0
            )
        })
        .collect();
    writeln!(
        std::io::stdout(),
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full} {height}" font-family="sans-serif" font-size="12" text-anchor="middle">
{STYLE}
<rect class="page" width="100%" height="100%" fill="#fff"/>
<rect class="away" x="{MARGIN}" y="{MARGIN}" width="{away:.1}" height="{HEIGHT}" fill="#f3e3e0"/>
<path d="M{MARGIN} {MARGIN}V{bottom}H{right}V{MARGIN}" fill="none" stroke="#888"/>
<path class="wait" d="{waits}" fill="none" stroke="#b3321f" stroke-width="2"/>
<path class="attempts" d="{attempts}" fill="none" stroke="#1f5fb3" stroke-width="2" stroke-dasharray="5 3"/>
<path class="marks" d="{marks}" stroke="#333"/>
<text x="{middle:.1}" y="20">server away (shaded), then back; each tick below is an attempt</text>
<text class="wait" x="{MARGIN}" y="38" text-anchor="start" fill="#b3321f">wait, 0 to {wait_most} s (solid)</text>
<text class="attempts" x="{right}" y="38" text-anchor="end" fill="#1f5fb3">attempts, 0 to {attempts_most} (dashed)</text>
{seconds}
</svg>"##,
        height = HEIGHT + 2.0 * MARGIN,
        away = x(AWAY) - MARGIN,
        waits = steps(&waits, wait_most),
        attempts = steps(&attempts, attempts_most),
        middle = full / 2.0,
    )
}
