//! A slow reader of pages.

#![allow(dead_code, reason = "not every test looks at everything")]

use std::io::Read;

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::read::DeflateDecoder;
use pool_report::Kind;

pub(crate) const KINDS: [Kind; 12] = [
    Kind::Allocate,
    Kind::Free,
    Kind::FreeAsked,
    Kind::FreeDone,
    Kind::Reuse,
    Kind::Steal,
    Kind::Growth,
    Kind::Trim,
    Kind::Commit,
    Kind::Decommit,
    Kind::PagesMoved,
    Kind::Failure,
];

/// An event as it is read back. A block's name is its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) kind: Kind,
    pub(crate) time: u64,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) reserved_bytes: u64,
    pub(crate) stream: u64,
    pub(crate) label: u64,
}

/// Everything of a page.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) title: String,
    pub(crate) source: String,
    pub(crate) clock: u64,
    pub(crate) streams: Vec<String>,
    pub(crate) labels: Vec<String>,
    pub(crate) arenas: Vec<(String, u64, u64)>,
    pub(crate) figures: Vec<(u64, String, f64, u64)>,
    pub(crate) markers: Vec<(u64, String)>,
    pub(crate) odd_events: u64,
    pub(crate) events: Vec<Seen>,
    pub(crate) sizes: Vec<u64>,
    pub(crate) events_a_place: u64,
    /// Of each size, of each place.
    pub(crate) shares: Vec<Vec<(u64, u64)>>,
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> u64 {
        let mut value = 0;
        for place in 0.. {
            let byte = self.bytes(1)[0];
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                break;
            }
        }
        value
    }

    fn step(&mut self, from: u64) -> u64 {
        let value = self.number();
        if value.is_multiple_of(2) {
            from.wrapping_add(value / 2)
        } else {
            from.wrapping_sub(value / 2).wrapping_sub(1)
        }
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count);
        self.0 = rest;
        bytes
    }

    fn part(&mut self) -> &'a [u8] {
        let count = self.number();
        self.bytes(usize::try_from(count).unwrap())
    }

    fn text(&mut self) -> String {
        String::from_utf8(self.part().to_vec()).unwrap()
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.number()).map(|_| read(self)).collect()
    }
}

/// Reads what was written.
pub(crate) fn read(page: &[u8]) -> Page {
    let page = str::from_utf8(page).unwrap();
    let (_, after) = page.split_once(r#"<script type="text/plain" id="history">"#).unwrap();
    let (letters, _) = after.split_once("</script>").unwrap();
    let packed = STANDARD.decode(letters).unwrap();
    let mut bytes = Vec::new();
    DeflateDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
    let mut reader = Reader(&bytes);
    assert_eq!(reader.number(), 1);
    let mut page = Page {
        title: reader.text(),
        source: reader.text(),
        clock: reader.number(),
        streams: reader.list(Reader::text),
        labels: reader.list(Reader::text),
        arenas: reader.list(|reader| (reader.text(), reader.number(), reader.number())),
        figures: reader.list(|reader| {
            let (policy, name) = (reader.number(), reader.text());
            let value = f64::from_le_bytes(reader.bytes(8).try_into().unwrap());
            (policy, name, value, reader.number())
        }),
        markers: reader.list(|reader| (reader.number(), reader.text())),
        odd_events: reader.number(),
        ..Page::default()
    };
    let (events, blocks) = (reader.number(), reader.number());
    let kinds = reader.part();
    assert_eq!(kinds.len() as u64, events);
    let mut columns = [(); 7].map(|()| Reader(reader.part()));
    let [times, addresses, sizes, streams, labels, frees, others] = &mut columns;
    let (mut time, mut address, mut other_address) = (0, 0, 0);
    let mut known: Vec<Seen> = Vec::new();
    for kind in kinds {
        let kind = KINDS[*kind as usize];
        time += times.number();
        page.events.push(match kind {
            Kind::Allocate => {
                address = addresses.step(address);
                let event = Seen {
                    kind,
                    time,
                    address,
                    bytes: sizes.number(),
                    reserved_bytes: 0,
                    stream: streams.number(),
                    label: labels.number(),
                };
                known.push(event.clone());
                event
            }
            Kind::Free | Kind::FreeAsked | Kind::FreeDone => {
                let back = usize::try_from(frees.number()).unwrap();
                Seen { kind, time, ..known[known.len() - back].clone() }
            }
            _ => {
                other_address = others.step(other_address);
                Seen {
                    kind,
                    time,
                    address: other_address,
                    bytes: others.number(),
                    reserved_bytes: others.number(),
                    stream: others.number(),
                    label: others.number(),
                }
            }
        });
    }
    assert_eq!(known.len() as u64, blocks);
    assert!(columns.iter().all(|column| column.0.is_empty()), "a column has more than was read");
    page.sizes = reader.list(Reader::number);
    page.events_a_place = reader.number();
    let places = reader.number();
    page.shares = (0..page.sizes.len())
        .map(|_| (0..places).map(|_| (reader.number(), reader.number())).collect())
        .collect();
    assert!(reader.0.is_empty(), "there is more than was read");
    page
}
