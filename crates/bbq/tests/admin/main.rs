//! The admin as people see it: the page in a real browser, `bbq top` in a real terminal, `bbq tail`, and what Prometheus makes of the metrics.

mod addresses;
mod alerts;
mod browser;
mod dashboard;
mod faulty;
mod filters;
#[path = "../sinks/http_server.rs"]
mod http_server;
mod metrics_numbers;
mod metrics_page;
mod named;
mod page;
mod page_faults;
mod page_history;
mod page_keys;
mod page_orders;
mod picture;
mod probe;
mod prometheus;
#[path = "../support/mod.rs"]
mod support;
mod tail;
mod tail_under_load;
mod terminal;
mod top;
mod top_keys;
mod top_problems;
mod viewers;
