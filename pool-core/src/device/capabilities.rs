//! What a device can do.

bitflags::bitflags! {
    /// What a device can do beyond giving and taking back ranges of memory. A pool asks once, when
    /// it is made, and makes no call that the device does not have.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::device::Capabilities;
    ///
    /// let one_queue = Capabilities::empty();
    /// assert!(!one_queue.contains(Capabilities::FENCES));
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Capabilities: u32 {
        /// It has several streams, and fences in them: [`record`], [`is_done`], [`wait`] and
        /// [`wait_on_host`]. Without, all work of the device is one queue, in the order in which
        /// the program submits it, the host's own accesses included.
        ///
        /// [`record`]: super::Device::record
        /// [`is_done`]: super::Device::is_done
        /// [`wait`]: super::Device::wait
        /// [`wait_on_host`]: super::Device::wait_on_host
        const FENCES = 1;
        /// The pool may make streams of its own: [`create_stream`](super::Device::create_stream).
        const STREAMS = 1 << 1;
        /// A range has an address: [`address`](super::Device::address).
        const ADDRESSES = 1 << 2;
        /// A range can grow where it is: [`extend`](super::Device::extend).
        const EXTEND = 1 << 3;
        /// Physical memory comes and goes under addresses: [`reserve`], [`create_pages`],
        /// [`destroy_pages`], [`commit`] and [`decommit`].
        ///
        /// [`reserve`]: super::Device::reserve
        /// [`create_pages`]: super::Device::create_pages
        /// [`destroy_pages`]: super::Device::destroy_pages
        /// [`commit`]: super::Device::commit
        /// [`decommit`]: super::Device::decommit
        const PAGES = 1 << 4;
        /// It copies between ranges: [`copy`](super::Device::copy).
        const COPY = 1 << 5;
        /// It knows its free memory: [`memory`](super::Device::memory).
        const MEMORY = 1 << 6;
        /// It has a clock: [`now`](super::Device::now).
        const CLOCK = 1 << 7;
        /// Its streams have identities that it never uses twice:
        /// [`stream_id`](super::Device::stream_id).
        const STREAM_IDS = 1 << 8;
        /// Streams can be captured into graphs: [`capture_id`](super::Device::capture_id).
        const CAPTURE = 1 << 9;
        /// Ranges may be allocated while a stream is captured.
        const GROWS_IN_CAPTURE = 1 << 10;
        /// Freeing a range may wait for all work of the device, as `cudaFree` does. Without, it waits
        /// for none.
        const FREE_WAITS = 1 << 11;
    }
}
