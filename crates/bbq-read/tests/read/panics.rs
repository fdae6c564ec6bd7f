//! If one of these fails, whoever writes a log can end the server, and every next start of it.

use crate::basics::Place;

#[test]
fn a_part_of_a_line_before_a_million_empty_lines_is_read() {
    const EMPTY: usize = 1_900_000;
    for format in ["cri", "auto", "docker"] {
        let place = Place::new();
        let part = match format {
            "docker" => "{\"log\":\"x\",\"stream\":\"stdout\"}\n",
            _ => "2026-01-01T00:00:00Z stdout P x\n",
        };
        let size = (part.len() + EMPTY) as u64;
        place.append("a.log", part);
        place.append("a.log", &"\n".repeat(EMPTY));
        let reader = place.start(&format!("*.log?format={format}"));
        place
            .server
            .wait("all of it is read", |state| state.streams.values().any(|stream| stream.durable == size));
        reader.stop();
        let lines = place.server.lines();
        assert_eq!(lines.len(), EMPTY + 1, "{format}");
        assert_eq!(lines.iter().filter(|line| *line == "x").count(), 1, "{format}");
    }
}
