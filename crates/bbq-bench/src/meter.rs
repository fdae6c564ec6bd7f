//! The cost of a load, from before the load to after it: processor time of server, client and others.

use std::time::{Duration, Instant};

use crate::cpu::{self, ProcessTime};
use crate::load::Load;
use crate::metric::Metric;
use crate::overflows;
use crate::sample::Sample;

/// A measurement that runs.
#[derive(Debug)]
pub(crate) struct Meter {
    server: Option<u32>,
    server_before: ProcessTime,
    machine_before: Duration,
    overflows_before: Option<u64>,
    began: Instant,
}

impl Meter {
    /// Starts the measurement, with the process of a server that is ready, if there is one.
    pub(crate) fn start(server: Option<u32>) -> anyhow::Result<Meter> {
        let server_before = server.map_or(Ok(ProcessTime::default()), cpu::of_process)?;
        let (machine_before, overflows_before) = (cpu::of_machine()?, overflows::count());
        Ok(Meter { server, server_before, machine_before, overflows_before, began: Instant::now() })
    }

    /// Ends it, for a server that has ended and has reported its own processor time.
    pub(crate) fn stop_ended(self, load: &Load, server: Duration) -> anyhow::Result<Sample> {
        self.finish(load, Some(ProcessTime { total: server, ..ProcessTime::default() }))
    }

    /// Ends it, when the server has finished what the load brought. That may be after the end of the load.
    pub(crate) fn stop(self, load: &Load) -> anyhow::Result<Sample> {
        let Some(pid) = self.server else { return self.finish(load, None) };
        let server = cpu::of_process(pid)? - self.server_before;
        let mut threads = cpu::by_thread(pid);
        threads.values_mut().for_each(|micros| *micros /= load.operations as f64);
        Ok(Sample { server_cpu_us_by_thread: threads, ..self.finish(load, Some(server))? })
    }

    fn finish(self, load: &Load, server: Option<ProcessTime>) -> anyhow::Result<Sample> {
        let took = self.began.elapsed().as_secs_f64();
        let machine = cpu::of_machine()?.saturating_sub(self.machine_before).as_secs_f64();
        anyhow::ensure!(load.operations > 0, "nothing was done in {took:.1} s");
        let operations = load.operations as f64;
        let mut sample = Sample::default();
        sample.set(Metric::Rate, operations / load.took.as_secs_f64());
        sample.set(Metric::DeliveredRate, operations / took);
        if load.bytes > 0 {
            sample.set(Metric::Throughput, load.bytes as f64 / 1e6 / load.took.as_secs_f64());
        }
        let processors = std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64);
        let client_total = load.cpu.as_secs_f64();
        let server_total = server.map_or(0.0, |server| server.total.as_secs_f64());
        if let Some(server) = server {
            sample.set(Metric::ServerCpu, server_total * 1e6 / operations);
            let ticks = (server.user + server.system).as_secs_f64();
            if ticks > 0.0 {
                let system = server.system.as_secs_f64() / ticks;
                sample.set(Metric::ServerSystemCpu, server_total * system * 1e6 / operations);
            }
            sample.set(Metric::ServerBusy, server_total * 100.0 / (load.took.as_secs_f64() * processors));
        }
        sample.set(Metric::ClientCpu, client_total * 1e6 / operations);
        let threads = load.threads as f64;
        sample.set(Metric::ClientBusy, client_total * 100.0 / (load.took.as_secs_f64() * threads));
        let others = (machine - server_total - client_total).max(0.0);
        sample.set(Metric::OthersBusy, others * 100.0 / (took * processors));
        if let (Some(before), Some(after)) = (self.overflows_before, overflows::count()) {
            sample.set(Metric::QueueOverflows, after.saturating_sub(before) as f64);
        }
        if let Some(latency) = &load.latency {
            latency.describe(&mut sample);
        }
        Ok(sample)
    }
}
