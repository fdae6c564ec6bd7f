//! docs/PROTOCOL.md and docs/protocol from a client's side, written from those pages alone: nothing here shares code with the server.

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    !crc
}

fn sealed(magic: &[u8; 4], rest: &[u8]) -> Vec<u8> {
    [magic.as_slice(), &crc32c(rest).to_le_bytes(), rest].concat()
}

/// A hello that wants durable acknowledgements.
pub fn hello(stream: u128) -> Vec<u8> {
    let name = b"test";
    let mut rest = 25_u32.to_le_bytes().to_vec();
    rest.extend([1, 1, 0, 0]);
    rest.extend(stream.to_le_bytes());
    rest.extend([2, 0, 0, 0, name.len() as u8]);
    rest.extend(name);
    sealed(b"BBQC", &rest)
}

/// A batch of messages shorter than 128 bytes.
pub fn batch(stream: u128, first_sequence: u64, messages: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    for message in messages {
        assert!(message.len() < 128, "the length is one byte");
        body.push(message.len() as u8);
        body.extend_from_slice(message);
    }
    let body_bytes = (body.len() as u32).to_le_bytes();
    let mut rest = body_bytes.to_vec();
    rest.extend([1, 0, 0, 0]);
    rest.extend(stream.to_le_bytes());
    rest.extend(first_sequence.to_le_bytes());
    rest.extend(0_u64.to_le_bytes());
    rest.extend((messages.len() as u32).to_le_bytes());
    rest.extend(body_bytes);
    rest.extend(body_bytes);
    rest.extend([0; 4]);
    rest.extend(body);
    sealed(b"BBQB", &rest)
}

/// Reads one control frame; returns its kind and its payload.
pub fn receive(server: &mut impl std::io::Read) -> (u8, Vec<u8>) {
    let mut header = [0; 16];
    server.read_exact(&mut header).expect("a control frame");
    let length = u32::from_le_bytes(header[8..12].try_into().expect("four bytes"));
    let mut payload = vec![0; length as usize];
    server.read_exact(&mut payload).expect("its payload");
    let rest = [&header[8..], &payload].concat();
    assert_eq!([&header[..], &payload].concat(), sealed(b"BBQC", &rest), "no control frame");
    (header[12], payload)
}
