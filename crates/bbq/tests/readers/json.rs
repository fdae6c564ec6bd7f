//! If this fails, the JSON output does not say from which file a message is, or by which reader.

use serde_json::Value;

use crate::files::{Log, logs, setup};

#[test]
fn a_message_has_the_name_of_its_reader_and_the_path_of_its_file() {
    let setup = setup().sink_query("?format=json");
    let mut log = Log::create(&logs(&setup), "app");
    log.write(3);
    let server = setup.start();
    server.wait_delivered(3);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let written = String::from_utf8(setup.written()).expect("text");
    for (index, line) in written.lines().enumerate() {
        let message: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(message["listener"], "logs", "{message}");
        let path = message["fields"]["log.file.path"].as_str().expect("a path");
        assert_eq!(path, logs(&setup).join("app.log").display().to_string());
        let text = message["message"].as_str().expect("text");
        assert!(text.starts_with(&format!("app {} x", index + 1)), "{text}");
    }
    assert_eq!(written.lines().count(), 3);
}
