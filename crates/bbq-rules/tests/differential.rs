//! Expressions mean what they mean in the interpreter of the crate `cel`. If this fails, an expression that people know from elsewhere keeps
//! other messages here.
//!
//! The expressions are drawn from a grammar; the fields of a message of JSON are the variables. Where the interpreter itself differs from
//! the language (github.com/google/cel-spec), the grammar leaves the case out, and says so.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use bbq_rules::{Attributes, Message, Rules, Scratch};
use bbq_wire::{Peer, SourceKind, StreamId};
use cel::{Context, Env, Value};
use proptest::prelude::*;
use serde_json::json;

/// An integer, a fraction, two texts, a truth value, a table.
const RECORD: &str = r#"{"i":5,"n":-3,"d":2.5,"s":"abc","t":"b","z":"","b":true,"m":{"k":1,"x":"y"}}"#;

fn int() -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        Just("parsed.i".to_owned()),
        Just("parsed.n".to_owned()),
        Just("parsed.m.k".to_owned()),
        (-9i64..9).prop_map(|int| int.to_string()),
        Just("9223372036854775807".to_owned()),
        text_leaf().prop_map(|text| format!("size({text})")),
    ];
    leaf.prop_recursive(3, 12, 2, |inner| {
        prop_oneof![
            (inner.clone(), prop::sample::select(vec!["+", "-", "*", "/", "%"]), inner.clone())
                .prop_map(|(a, sign, b)| format!("({a} {sign} {b})")),
            (boolean_leaf(), inner.clone(), inner).prop_map(|(c, a, b)| format!("({c} ? {a} : {b})")),
        ]
    })
    .boxed()
}

fn text_leaf() -> BoxedStrategy<String> {
    prop_oneof![
        Just("parsed.s".to_owned()),
        Just("parsed.t".to_owned()),
        Just("parsed.z".to_owned()),
        Just("parsed.m.x".to_owned()),
        Just("parsed.missing".to_owned()),
        prop::sample::select(vec!["''", "'b'", "\"abc\"", "'ab' + 'c'"]).prop_map(|text| format!("({text})")),
        Just("string(parsed.i)".to_owned()),
    ]
    .boxed()
}

fn boolean_leaf() -> BoxedStrategy<String> {
    prop_oneof![
        Just("parsed.b".to_owned()),
        Just("true".to_owned()),
        Just("false".to_owned()),
        Just("parsed.missing".to_owned()),
        Just("has(parsed.s)".to_owned()),
        Just("has(parsed.missing)".to_owned()),
        Just("has(parsed.m.k)".to_owned()),
    ]
    .boxed()
}

fn boolean() -> BoxedStrategy<String> {
    let comparison = || prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let leaf = prop_oneof![
        boolean_leaf(),
        (int(), comparison(), int()).prop_map(|(a, sign, b)| format!("{a} {sign} {b}")),
        (text_leaf(), comparison(), text_leaf()).prop_map(|(a, sign, b)| format!("{a} {sign} {b}")),
        (comparison(), prop::sample::select(vec!["2.5", "0.5", "-1.0", "5.0"]))
            .prop_map(|(sign, double)| format!("parsed.d {sign} {double}")),
        (text_leaf(), prop::sample::select(vec!["contains", "startsWith", "endsWith"]), text_leaf())
            .prop_map(|(a, function, b)| format!("{a}.{function}({b})")),
        (text_leaf(), prop::sample::select(vec!["'^a'", "'b$'", "'[ab]c'", "'^$'"]))
            .prop_map(|(a, pattern)| format!("{a}.matches({pattern})")),
        (text_leaf(), prop::collection::vec(text_leaf(), 0..3))
            .prop_map(|(a, list)| format!("{a} in [{}]", list.join(", "))),
        (int(), prop::collection::vec(int(), 0..3))
            .prop_map(|(a, list)| format!("{a} in [{}]", list.join(", "))),
        prop::sample::select(vec!["'k'", "'q'", "parsed.s"]).prop_map(|key| format!("{key} in parsed.m")),
    ];
    leaf.prop_recursive(4, 24, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} && {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} || {b})")),
            inner.clone().prop_map(|a| format!("!({a})")),
            (inner.clone(), inner.clone(), inner).prop_map(|(c, a, b)| format!("({c} ? {a} : {b})")),
        ]
    })
    .boxed()
}

/// What the rules say: kept, left out, or failed.
fn here(expression: &str) -> Option<bool> {
    let text = json!({"where": expression, "parse": "json"}).to_string();
    let rules = Rules::parse_text(&text).unwrap_or_else(|problem| panic!("{expression}: {problem}"));
    let message = Message {
        record: RECORD.as_bytes(),
        source: SourceKind::Lines,
        listener: "",
        peer: Peer::Unnamed,
        received_ns: 0,
        stream: StreamId([0; 16]),
        sequence: 1,
        attributes: Attributes::default(),
    };
    let keeps = rules.keeps(&message, &mut Scratch::default());
    (rules.failed() == 0).then_some(keeps)
}

/// As here, integers of JSON are integers; the interpreter's own conversion makes those without a sign unsigned.
fn value(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Bool(truth) => Value::Bool(*truth),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(int) => Value::Int(int),
            None => Value::Float(number.as_f64().expect("a number")),
        },
        serde_json::Value::String(text) => Value::String(Arc::new(text.clone())),
        serde_json::Value::Object(map) => {
            let map: HashMap<String, Value> =
                map.iter().map(|(key, json)| (key.clone(), value(json))).collect();
            map.into()
        }
        other => panic!("{other} is not in the record"),
    }
}

fn reference(expression: &str) -> Option<bool> {
    static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));
    let env = Arc::clone(&ENV);
    let program = env.compile(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
    let mut context = Context::with_env(env);
    context.add_variable_from_value("parsed", value(&serde_json::from_str(RECORD).expect("JSON")));
    match program.execute(&context) {
        Ok(Value::Bool(truth)) => Some(truth),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, max_shrink_iters: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn expressions_mean_what_they_mean_in_the_interpreter(expression in boolean()) {
        prop_assert_eq!(here(&expression), reference(&expression), "{}", expression);
    }
}
