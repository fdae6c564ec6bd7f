//! The page of the admin: files that are in the program, so that it is the same without a network and without files beside the program.
//! It holds no numbers itself: its scripts ask /status, /history, /configuration and /tail, with a token if the admin wants one.
//!
//! Invariant: the browser runs and loads nothing that is not in this list (see `POLICY`).

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse as _, Response};

/// Nothing from elsewhere, nothing written in the page itself, no frame around it, and no text that becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

/// A file of the page.
struct File {
    /// Of the URL.
    path: &'static str,
    content_type: &'static str,
    content: &'static str,
}

macro_rules! file {
    ($name:literal, $content_type:expr) => {
        File {
            path: concat!("/page/", $name),
            content_type: $content_type,
            content: include_str!(concat!("page/", $name)),
        }
    };
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

static FILES: [File; 26] = [
    File { path: "/", content_type: "text/html; charset=utf-8", content: include_str!("page/index.html") },
    file!("style.css", "text/css; charset=utf-8"),
    file!("icon.svg", "image/svg+xml"),
    file!("main.js", SCRIPT),
    file!("configuration.js", SCRIPT),
    file!("copy.js", SCRIPT),
    file!("element.js", SCRIPT),
    file!("first.js", SCRIPT),
    file!("flow.js", SCRIPT),
    file!("geometry.js", SCRIPT),
    file!("history.js", SCRIPT),
    file!("ledger.js", SCRIPT),
    file!("listeners.js", SCRIPT),
    file!("now.js", SCRIPT),
    file!("number.js", SCRIPT),
    file!("orders.js", SCRIPT),
    file!("plot.js", SCRIPT),
    file!("problems.js", SCRIPT),
    file!("rates.js", SCRIPT),
    file!("readers.js", SCRIPT),
    file!("server.js", SCRIPT),
    file!("sinks.js", SCRIPT),
    file!("table.js", SCRIPT),
    file!("tail.js", SCRIPT),
    file!("token.js", SCRIPT),
    file!("workers.js", SCRIPT),
];

/// The paths, to route. They are served to everybody: what they show comes from routes that check the token.
pub(crate) fn paths() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|file| file.path)
}

/// Whether this is a file of the page.
pub(crate) fn has(path: &str) -> bool {
    paths().any(|known| known == path)
}

/// The file of a path that [`paths`] has.
pub(crate) fn response(path: &str) -> Option<Response> {
    let file = FILES.iter().find(|file| file.path == path)?;
    let headers = [
        (CONTENT_TYPE, file.content_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        // After an upgrade, a browser must not mix the files of two versions.
        (CACHE_CONTROL, "no-store"),
    ];
    Some((headers, file.content).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_only_files_that_are_served() {
        for file in &FILES {
            for (at, _) in file.content.match_indices("page/") {
                let rest = &file.content[at..];
                let name = rest.split(['"', '\'', ')']).next().unwrap_or_default();
                assert!(has(&format!("/{name}")), "{}: {name}", file.path);
            }
            for import in file.content.lines().filter_map(|line| line.split_once(" from \"./")) {
                let name = import.1.trim_end_matches("\";");
                assert!(has(&format!("/page/{name}")), "{}: {name}", file.path);
            }
            assert!(
                !file.content.contains("innerHTML") && !file.content.contains(" style="),
                "{}",
                file.path
            );
        }
    }
}
