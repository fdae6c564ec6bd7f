//! Runs the tests of a program that is no test harness, as that has threads, and children are cloned from a process that has none.

/// Runs the tests whose names contain the first argument, if there is one, one after the other. It prints what the standard
/// harness prints, for whoever counts tests.
pub(crate) fn run(tests: &[(&str, fn())]) {
    let wanted = std::env::args().nth(1).filter(|word| !word.starts_with('-')).unwrap_or_default();
    let tests: Vec<_> = tests.iter().filter(|(name, _)| name.contains(&wanted)).collect();
    println!("running {} tests", tests.len());
    for (name, test) in &tests {
        test();
        println!("test {name} ... ok");
    }
    println!("\ntest result: ok. {} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out", tests.len());
}
