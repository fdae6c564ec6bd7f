//! Messages as devices and programs send them, after what their makers document. If these fail, a field of a message has the value of
//! another one, or is missing although it can be read.

use chrono::{Local, NaiveDate, TimeZone as _};
use serde_json::{Value, json};

/// When the messages came, in the zone of this machine.
const RECEIVED: (i32, u32, u32, u32) = (2026, 10, 12, 8);

fn read_at((year, month, day, hour): (i32, u32, u32, u32), message: &[u8]) -> Value {
    let time = NaiveDate::from_ymd_opt(year, month, day).unwrap().and_hms_opt(hour, 0, 0).unwrap();
    let time = Local.from_local_datetime(&time).earliest().unwrap();
    let received_ns = time.timestamp_nanos_opt().unwrap().try_into().unwrap();
    serde_json::to_value(super::read(message, received_ns)).unwrap()
}

fn read(message: &[u8]) -> Value {
    read_at(RECEIVED, message)
}

fn timestamp(message: &str) -> Value {
    read(message.as_bytes())["timestamp"].clone()
}

/// A time of this machine's zone, as a field.
fn local(time: &str) -> Value {
    let time = chrono::NaiveDateTime::parse_from_str(time, "%Y-%m-%dT%H:%M:%S%.f").unwrap();
    json!(Local.from_local_datetime(&time).earliest().unwrap().fixed_offset().to_rfc3339())
}

/// Checks the fields of a message, but for facility, severity and timestamp.
fn assert_fields(message: &str, fields: &Value) {
    let mut found = read(message.as_bytes());
    for key in ["facility", "severity", "timestamp"] {
        found.as_object_mut().unwrap().remove(key);
    }
    assert_eq!(found, *fields, "{message}");
}

#[test]
fn messages_with_a_host() {
    for (message, fields) in [
        (
            "<34>Oct 11 22:14:15 mymachine su: 'su root' failed for lonvick on /dev/pts/8",
            json!({"hostname": "mymachine", "appname": "su", "msg": "'su root' failed for lonvick on /dev/pts/8"}),
        ),
        (
            "<22>Oct  1 22:14:15 mail postfix/smtpd[1234]: connect from unknown",
            json!({"hostname": "mail", "appname": "postfix/smtpd", "procid": "1234", "msg": "connect from unknown"}),
        ),
        (
            "<190>Oct 11 22:14:15 web-1 nginx: 192.0.2.1 - - \"GET / HTTP/1.1\"",
            json!({"hostname": "web-1", "appname": "nginx", "msg": "192.0.2.1 - - \"GET / HTTP/1.1\""}),
        ),
        (
            "<13>2026-10-11T22:14:15.003+02:00 2001:db8::1 (sd-pam)[77]: text",
            json!({"hostname": "2001:db8::1", "appname": "(sd-pam)", "procid": "77", "msg": "text"}),
        ),
        // ESXi.
        (
            "<166>2026-10-11T22:14:15.003Z esx01.example.com Hostd: info hostd[2100] [Originator@6876] ready",
            json!({"hostname": "esx01.example.com", "appname": "Hostd", "msg": "info hostd[2100] [Originator@6876] ready"}),
        ),
        // A switch whose name of the module stands behind a number, and a firewall without a tag.
        (
            "<14>Oct 11 22:14:15 192.0.2.7 00076 ports: port 1 is now on-line",
            json!({"hostname": "192.0.2.7", "msg": "00076 ports: port 1 is now on-line"}),
        ),
        (
            "<14>Oct 11 22:14:15 PA-220 1,2026/10/11 22:14:15,0123,TRAFFIC,end",
            json!({"hostname": "PA-220", "msg": "1,2026/10/11 22:14:15,0123,TRAFFIC,end"}),
        ),
        // JunOS.
        (
            "<28>Oct 11 22:14:15 router1 mgd[4153]: UI_DBASE_LOGOUT_EVENT: User 'user' exiting",
            json!({"hostname": "router1", "appname": "mgd", "procid": "4153", "msg": "UI_DBASE_LOGOUT_EVENT: User 'user' exiting"}),
        ),
        (
            "<28>Oct 11 22:14:15.123 router1 rpd[1]: %DAEMON-4-RPD_BGP: text",
            json!({"hostname": "router1", "appname": "rpd", "procid": "1", "msg": "%DAEMON-4-RPD_BGP: text"}),
        ),
    ] {
        assert_fields(message, &fields);
    }
}

#[test]
fn a_local_tag_is_no_host() {
    for (message, fields) in [
        ("<13>Oct 11 22:14:15 root: from logger -u", json!({"appname": "root", "msg": "from logger -u"})),
        ("<6>Oct 11 22:14:15 kernel: [ 1.2] usb 1-1", json!({"appname": "kernel", "msg": "[ 1.2] usb 1-1"})),
        ("<190>Oct 11 22:14:15 nginx: GET /", json!({"appname": "nginx", "msg": "GET /"})),
        (
            "<78>Oct 11 22:14:15 CRON[77]: (root) CMD (true)",
            json!({"appname": "CRON", "procid": "77", "msg": "(root) CMD (true)"}),
        ),
        (
            "<85>Oct 11 22:14:15 sudo:    root : TTY=pts/0",
            json!({"appname": "sudo", "msg": "   root : TTY=pts/0"}),
        ),
        (
            "<13>Oct 11 22:14:15 last message repeated 3 times",
            json!({"msg": "last message repeated 3 times"}),
        ),
        // Python's SysLogHandler with ident="pyapp: ", which ends its messages with a zero byte, and without an ident.
        ("<14>pyapp: hello\0", json!({"appname": "pyapp", "msg": "hello"})),
        ("<14>hello there\0", json!({"msg": "hello there"})),
        (
            "<14>pyapp: 2026-10-11T22:14:15Z hello",
            json!({"appname": "pyapp", "msg": "2026-10-11T22:14:15Z hello"}),
        ),
        ("<14>pyapp[12]: hello", json!({"appname": "pyapp", "procid": "12", "msg": "hello"})),
    ] {
        assert_fields(message, &fields);
    }
}

#[test]
fn routers_write_numbers_marks_and_zones() {
    let tag = |tag: &str| json!({"appname": tag, "msg": "text"});
    let with_host = |host: &str, tag: &str| json!({"hostname": host, "appname": tag, "msg": "text"});
    for (message, fields) in [
        ("<189>29: *Mar  1 18:46:11: %SYS-5-CONFIG_I: text", tag("%SYS-5-CONFIG_I")),
        ("<187>123: Oct 11 22:14:15.123: %LINK-3-UPDOWN: text", tag("%LINK-3-UPDOWN")),
        (
            "<189>29: router1: .Mar  1 18:46:11.000 UTC: %SYS-5-CONFIG_I: text",
            with_host("router1", "%SYS-5-CONFIG_I"),
        ),
        ("<189>: 2026 Oct 11 22:14:15 UTC: %DAEMON-3-SYSTEM_MSG: text", tag("%DAEMON-3-SYSTEM_MSG")),
        ("<166>Oct 11 2026 22:14:15 fw1 : %ASA-6-302013: text", with_host("fw1", "%ASA-6-302013")),
        ("<166>Oct 11 2026 22:14:15: %ASA-6-302013: text", tag("%ASA-6-302013")),
        ("<166>%ASA-6-302013: text", tag("%ASA-6-302013")),
    ] {
        assert_fields(message, &fields);
    }
    assert_eq!(timestamp("<189>: 2026 Oct 11 22:14:15 UTC: %A-1-B: x"), "2026-10-11T22:14:15+00:00");
    assert_eq!(timestamp("<189>1: Oct 11 22:14:15 CET: %A-1-B: x"), "2026-10-11T22:14:15+01:00");
    // Nobody knows which of its zones IST is for this router.
    assert_eq!(timestamp("<189>1: Oct 11 22:14:15 IST: %A-1-B: x"), Value::Null);
    let local = timestamp("<189>29: *Oct 11 22:14:15.25: %A-1-B: x");
    assert!(local.as_str().unwrap().contains("-10-11T22:14:15.250"), "{local}");
}

#[test]
fn rfc_5424_and_what_is_nearly_that() {
    let message = "<165>1 2026-10-11T22:14:15.003Z router1 mgd 3046 UI_EVENT [junos@2636.1.1.1.2.18 username=\"user\"] \u{feff}text";
    let expected = json!({
        "facility": "local4", "severity": "notice", "timestamp": "2026-10-11T22:14:15.003+00:00", "hostname": "router1",
        "appname": "mgd", "procid": "3046", "msgid": "UI_EVENT",
        "structured_data": {"junos@2636.1.1.1.2.18": {"username": "user"}}, "msg": "text",
    });
    assert_eq!(read(message.as_bytes()), expected);
    // Data that are not valid stay with the text, and the other fields are read.
    let broken = "<165>1 2026-10-11T22:14:15Z - app - - [broken text";
    let expected = json!({
        "facility": "local4", "severity": "notice", "timestamp": "2026-10-11T22:14:15+00:00", "appname": "app",
        "msg": "[broken text",
    });
    assert_eq!(read(broken.as_bytes()), expected);
    for procid in ["0012", "-7", "99999999999", "worker-3"] {
        let message = format!("<165>1 2026-10-11T22:14:15Z host app {procid} - - text");
        assert_fields(
            &message,
            &json!({"hostname": "host", "appname": "app", "procid": procid, "msg": "text"}),
        );
    }
}

#[test]
fn what_is_not_utf_8_keeps_the_fields_of_its_header() {
    let expected =
        json!({"facility": "auth", "severity": "crit", "hostname": "host", "appname": "app", "procid": "7"});
    let mut found = read(b"<34>Oct 11 22:14:15 host app[7]: caf\xe9");
    assert!(found.as_object_mut().unwrap().remove("timestamp").is_some());
    assert_eq!(found, expected);
    let found = read(b"<34>1 2026-10-11T22:14:15Z h\xe9 app - - [a b=\"\xe9\" c=\"d\"] text");
    assert_eq!(
        (&found["hostname"], &found["appname"], &found["msg"]),
        (&Value::Null, &json!("app"), &json!("text"))
    );
    assert_eq!(found["structured_data"], json!({"a": {"c": "d"}}));
}

#[test]
fn what_has_no_header_is_the_message() {
    for message in [
        "",
        " ",
        "<",
        "<>",
        "<34",
        "<192>text",
        "<+1>text",
        "<0034>text",
        "<034>text",
        "text: without a priority",
        "Oct",
        "Oct 11",
        "Oct 32 22:14:15 host app: text",
    ] {
        assert_eq!(read(message.as_bytes()), json!({"msg": message}), "{message}");
    }
    for (message, rest) in [
        ("<13>", ""),
        ("<13>date=2026-10-11 time=22:14:15 devname=\"fw\"", "date=2026-10-11 time=22:14:15 devname=\"fw\""),
        ("<13>{\"json\": 1}", "{\"json\": 1}"),
        ("<13>http://example: text", "http://example: text"),
        ("<13>Feb 30 22:14:15 x", "Feb 30 22:14:15 x"),
        ("<13>1", "1"),
    ] {
        assert_fields(message, &json!({"msg": rest}));
    }
}

#[test]
fn no_message_makes_it_panic() {
    let samples = [
        "<189>29: router1: *Mar  1 18:46:11.000 UTC: %SYS-5-CONFIG_I: text",
        "<165>1 2026-10-11T22:14:15.003Z h a 1 I [a b=\"c\"] \u{e9}",
        "<34>Oct 11 2026 22:14:15 h\u{f6}st \u{e4}pp[\u{e9}]: \u{fc}",
    ];
    for sample in samples.map(str::as_bytes) {
        for cut in 0..sample.len() {
            let _read = super::read(&sample[..cut], 0);
            let _read = super::read(&sample[cut..], u64::MAX);
            for byte in [0, b' ', b':', b'[', 0xff] {
                let mut changed = sample.to_vec();
                changed[cut] = byte;
                let _read = super::read(&changed, 1);
            }
        }
    }
}

#[test]
fn a_time_without_a_year_is_of_the_year_that_is_nearest_to_its_receipt() {
    for (received, time, year) in [
        ((2026, 10, 12, 8), "Oct 11 22:14:15", 2026),
        ((2027, 1, 1, 8), "Jan  1 07:59:59", 2027),
        // A sender is a little behind, or a little ahead.
        ((2027, 1, 1, 0), "Dec 31 23:59:59", 2026),
        ((2026, 12, 31, 23), "Jan  1 00:00:05", 2027),
        ((2027, 1, 9, 0), "Nov 30 12:00:00", 2026),
        ((2026, 12, 9, 0), "Jan 30 12:00:00", 2027),
        ((2028, 3, 1, 0), "Feb 29 12:00:00", 2028),
    ] {
        let found = read_at(received, format!("<34>{time} host app: text").as_bytes());
        assert!(
            found["timestamp"].as_str().is_some_and(|found| found.starts_with(&year.to_string())),
            "{received:?} {found}"
        );
    }
}

#[test]
fn structured_data_that_are_not_valid_stay_with_the_text() {
    let header = "<14>1 2026-10-11T22:14:15Z h app 1 ID";
    for rest in [
        "[action:\"Accept\"; src:\"192.0.2.1\"]",
        "[a b=c] text",
        "[b=\"c\"] text",
        "[a b=\"c\" ] text",
        "[] text",
        "[a  b=\"c\"] text",
        "[a b=\"c\"]text",
        "[a b=\"c\"",
        "[a b=\"c]",
        "-text",
        "",
    ] {
        let found = read(format!("{header} {rest}").as_bytes());
        assert_eq!((&found["msg"], &found["structured_data"]), (&json!(rest), &Value::Null), "{rest}");
        assert_eq!(found["procid"], "1", "{rest}");
    }
}

#[test]
fn structured_data_keep_every_value() {
    for (data, expected) in [
        ("[win path=\"C:\\new\\temp\"]", json!({"win": {"path": "C:\\new\\temp"}})),
        (r#"[a b="\"\\\]"]"#, json!({"a": {"b": "\"\\]"}})),
        ("[a b=\"[c]\"]", json!({"a": {"b": "[c]"}})),
        ("[a b=\"\" c=\"=\"]", json!({"a": {"b": "", "c": "="}})),
        // The RFC's own example, and what it forbids.
        (
            "[origin ip=\"192.0.2.1\" ip=\"192.0.2.129\" ip=\"192.0.2.2\"]",
            json!({"origin": {"ip": ["192.0.2.1", "192.0.2.129", "192.0.2.2"]}}),
        ),
        ("[a b=\"1\"][c][a b=\"2\"]", json!({"a": {"b": ["1", "2"]}, "c": {}})),
    ] {
        let found = read(format!("<14>1 2026-10-11T22:14:15Z h app 1 ID {data}  text ").as_bytes());
        assert_eq!((&found["structured_data"], &found["msg"]), (&expected, &json!(" text ")), "{data}");
    }
}

#[test]
fn blanks_of_a_text_are_its_own() {
    for (message, msg) in [
        (
            "<14>1 2026-10-11T22:14:15Z h app 1 - - \tat com.example.Foo(Foo.java:1)",
            "\tat com.example.Foo(Foo.java:1)",
        ),
        ("<14>1 2026-10-11T22:14:15Z h app 1 - -     key: value   ", "    key: value   "),
        ("<14>Oct 11 22:14:15 h app[7]:     indented", "    indented"),
        ("<14>app:  text ", " text "),
        ("<14>  text", "  text"),
    ] {
        assert_eq!(read(message.as_bytes())["msg"], msg, "{message}");
    }
}

#[test]
fn a_time_of_rfc_5424_is_read_as_senders_write_it() {
    for (time, expected) in [
        ("2026-10-11T22:14:15+0200", json!("2026-10-11T22:14:15+02:00")),
        ("2026-10-11T22:14:15-03", json!("2026-10-11T22:14:15-03:00")),
        ("2026-10-11T22:14:15,123Z", json!("2026-10-11T22:14:15.123+00:00")),
        ("2026-10-11T22:14:15.123", local("2026-10-11T22:14:15.123")),
        ("yesterday", Value::Null),
        ("2026-10-11T22:14:15+9900", Value::Null),
        ("-", Value::Null),
    ] {
        let found = read(format!("<14>1 {time} h app 1 ID [a b=\"c\"] text").as_bytes());
        assert_eq!(found["timestamp"], expected, "{time}");
        assert_eq!(found["structured_data"], json!({"a": {"b": "c"}}), "{time}");
        assert_eq!((&found["hostname"], &found["msg"]), (&json!("h"), &json!("text")), "{time}");
    }
    // Without a time and without data it is no header.
    assert_eq!(read(b"<14>1 yesterday at all my troubles")["msg"], "1 yesterday at all my troubles");
    let found = read(b"<14>1 2026-10-11T22:14:15Z h app");
    assert_eq!((&found["appname"], &found["msg"]), (&json!("app"), &json!("")));
}

fn assert_dialect(message: &str, time: &Value, fields: &Value) {
    assert_fields(message, fields);
    assert_eq!(timestamp(message), *time, "{message}");
}

#[test]
fn routers_write_years_numbers_and_uptimes() {
    let comware = "<187>Oct 11 22:14:15 2026 SW-1 %%10IFNET/3/LINK_UPDOWN: link status is up.";
    for (message, time, fields) in [
        (
            comware,
            local("2026-10-11T22:14:15"),
            json!({"hostname": "SW-1", "appname": "%%10IFNET/3/LINK_UPDOWN", "msg": "link status is up."}),
        ),
        (
            "<140>Oct 11 22:14:15 2019 sw-1 stm[3456]: <501095> text",
            local("2019-10-11T22:14:15"),
            json!({"hostname": "sw-1", "appname": "stm", "procid": "3456", "msg": "<501095> text"}),
        ),
        (
            "<189>82: 00:20:10: %SYS-5-CONFIG_I: Configured from console",
            Value::Null,
            json!({"appname": "%SYS-5-CONFIG_I", "msg": "Configured from console"}),
        ),
        (
            "<189>83: 1d02h: %SYS-5-CONFIG_I: Configured from console",
            Value::Null,
            json!({"appname": "%SYS-5-CONFIG_I", "msg": "Configured from console"}),
        ),
        (
            "<189>84: router1: 000017: 1y05w: %SYS-5-CONFIG_I: text",
            Value::Null,
            json!({"hostname": "router1", "appname": "%SYS-5-CONFIG_I", "msg": "text"}),
        ),
        (
            "<189>85: 000018: *Oct 11 22:14:15.123: %SYS-5-CONFIG_I: text",
            local("2026-10-11T22:14:15.123"),
            json!({"appname": "%SYS-5-CONFIG_I", "msg": "text"}),
        ),
        (
            "<189>123: RP/0/RSP0/CPU0:Oct 12 12:34:56.123 : pim[1234]: %ROUTING-IPV4_PIM-5-NBRCHG : text",
            local("2026-10-12T12:34:56.123"),
            json!({"appname": "pim", "procid": "1234", "msg": "%ROUTING-IPV4_PIM-5-NBRCHG : text"}),
        ),
    ] {
        assert_dialect(message, &time, &fields);
    }
}

#[test]
fn other_times_and_tags_of_rfc_3164() {
    for (message, time, fields) in [
        (
            "<134>2026-10-11 22:14:15 sw1 61209 Set log host 1",
            local("2026-10-11T22:14:15"),
            json!({"hostname": "sw1", "msg": "61209 Set log host 1"}),
        ),
        (
            "<14>2026-10-11T22:14:15 h app[1]: text",
            local("2026-10-11T22:14:15"),
            json!({"hostname": "h", "appname": "app", "procid": "1", "msg": "text"}),
        ),
        (
            "<14>2026-10-11T22:14:15+0200 h app[1]: text",
            json!("2026-10-11T22:14:15+02:00"),
            json!({"hostname": "h", "appname": "app", "procid": "1", "msg": "text"}),
        ),
        (
            "<38>Oct 11 22:14:15,123 h app[812]:text",
            local("2026-10-11T22:14:15.123"),
            json!({"hostname": "h", "appname": "app", "procid": "812", "msg": "text"}),
        ),
        (
            "<38>Oct 11 22:14:15 h app:text",
            local("2026-10-11T22:14:15"),
            json!({"hostname": "h", "appname": "app", "msg": "text"}),
        ),
        (
            "<38>Oct 11 22:14:15 h a,b[1]: text",
            local("2026-10-11T22:14:15"),
            json!({"hostname": "h", "appname": "a,b", "procid": "1", "msg": "text"}),
        ),
    ] {
        assert_dialect(message, &time, &fields);
    }
}

#[test]
fn a_zone_in_front_of_a_host_and_what_is_no_tag() {
    for (message, time, fields) in [
        (
            "<38>Oct 11 22:14:15 CEST h app: text",
            json!("2026-10-11T22:14:15+02:00"),
            json!({"hostname": "h", "appname": "app", "msg": "text"}),
        ),
        (
            "<38>Oct 11 22:14:15 UTC h app: text",
            json!("2026-10-11T22:14:15+00:00"),
            json!({"hostname": "h", "appname": "app", "msg": "text"}),
        ),
        (
            "<38>Oct 11 22:14:15 _gateway app: text",
            local("2026-10-11T22:14:15"),
            json!({"hostname": "_gateway", "appname": "app", "msg": "text"}),
        ),
        // Not a tag.
        (
            "<38>Oct 11 22:14:15 h http://example.com is up",
            local("2026-10-11T22:14:15"),
            json!({"hostname": "h", "msg": "http://example.com is up"}),
        ),
        (
            "<38>Oct 11 22:14:15 h 22:14 is the time",
            local("2026-10-11T22:14:15"),
            json!({"hostname": "h", "msg": "22:14 is the time"}),
        ),
    ] {
        assert_dialect(message, &time, &fields);
    }
}

/// Fields and text of any bytes that RFC 5424 allows come back, whatever they are.
#[test]
fn what_is_written_as_the_rfc_says_is_read_as_it_was_meant() {
    let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut next = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let printable: Vec<char> = ('!'..='~').collect();
    let of_names: Vec<char> = printable.iter().copied().filter(|c| !"=]\"".contains(*c)).collect();
    let of_texts: Vec<char> = "\"\\]\\[= \t\u{e9}\u{1f980}=a\\\\\"".chars().collect();
    let mut word = |of: &[char], least: usize, most: usize| -> String {
        (0..least + next(most - least + 1)).map(|_| of[next(of.len())]).collect()
    };
    for _ in 0..5000 {
        // `-` alone is no value.
        let fields: [String; 4] = std::array::from_fn(|_| format!("x{}", word(&printable, 0, 9)));
        let mut expected = serde_json::Map::new();
        let mut data = String::new();
        for element in 0..word(&of_names, 1, 3).len() {
            let (id, mut params) = (format!("{element}{}", word(&of_names, 0, 8)), serde_json::Map::new());
            data.push_str(&format!("[{id}"));
            for param in 0..word(&of_names, 1, 3).len() - 1 {
                let (key, value) = (format!("{param}{}", word(&of_names, 0, 8)), word(&of_texts, 0, 9));
                let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace(']', "\\]");
                data.push_str(&format!(" {key}=\"{escaped}\""));
                params.insert(key, Value::String(value));
            }
            data.push(']');
            expected.insert(id, Value::Object(params));
        }
        let [host, app, procid, msgid] = &fields;
        let msg = word(&of_texts, 0, 9);
        let message = format!("<14>1 2026-10-11T22:14:15Z {host} {app} {procid} {msgid} {data} {msg}");
        let found = read(message.as_bytes());
        let keys = ["hostname", "appname", "procid", "msgid", "msg"];
        for (key, value) in keys.iter().zip(fields.iter().chain([&msg])) {
            assert_eq!(found[key], *value, "{message}");
        }
        assert_eq!(found["structured_data"], Value::Object(expected), "{message}");
    }
}
