//! If this fails, an operator who cannot open an address is not told what to do about it.

use bbq_listen::{Address, Group, GroupOptions, ListenError};

#[test]
fn a_foreign_address_is_said() {
    // TEST-NET-1 of RFC 5737: no machine has it.
    let address: Address = "tcp://192.0.2.1:0".parse().unwrap();
    let error = Group::open(&GroupOptions::new(address, 2)).unwrap_err();
    assert!(matches!(error, ListenError::AddressNotAvailable { .. }), "{error:?}");
    assert!(error.to_string().contains("tcp://192.0.2.1:0"), "{error}");
    assert!(error.to_string().contains("0.0.0.0"), "{error}");
}
