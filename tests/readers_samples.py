"""Small logs of invented numbers in each format, and the rows that a reader must find in them."""

NCCL = """\
# nccl-tests version 2.18.2 nccl-headers=23001 nccl-library=23001
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 4 minBytes 1024 maxBytes 1048576 step: 32(factor) warmup iters: 5 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid  11 on host0 device  0 [0000:05:00] Invented A
#  Rank  1 Group  0 Pid  11 on host0 device  1 [0000:06:00] Invented A
#  Rank  2 Group  0 Pid  11 on host0 device  2 [0000:07:00] Invented A
#  Rank  3 Group  0 Pid  11 on host0 device  3 [0000:08:00] Invented A
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    10.00    0.10    0.15       0    12.50    0.08    0.12       0
host0:11:11 [0] NCCL INFO Launch mode Parallel
       32768          8192     float     sum      -1    16.00    2.05    3.07       0    20.00    1.64    2.46       0
     1048576        262144     float     sum      -1   100.00   10.49   15.73       0    50.00   20.97   31.46       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 8.83
"""  # noqa: E501
NCCL_ROWS = [
    ("all_reduce", 4, 1024, 10e-6), ("all_reduce", 4, 1024, 12.5e-6),
    ("all_reduce", 4, 32768, 16e-6), ("all_reduce", 4, 32768, 20e-6),
    ("all_reduce", 4, 1048576, 100e-6), ("all_reduce", 4, 1048576, 50e-6),
]  # fmt: skip
OLD_ALL_TO_ALL = """\
[1,0]<stdout>:# nThread 1 nGpus 1 minBytes 1 maxBytes 1048576 step: 2(factor) warmup iters: 5
[1,0]<stdout>:#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
[1,0]<stdout>:#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
[1,0]<stdout>:     1048576         65536   float            100.0   10.49    7.86    N/A    50.00   20.97   15.73    N/A
[1,0]<stdout>:     2097152        131072   float            200.0   10.49    7.86    N/A    100.0   20.97   15.73    N/A
[1,0]<stdout>:     4194304        262144   float            400.0   10.49    7.86    N/A    200.0   20.97   15.73    N/A
"""  # noqa: E501
OSU = """\
# OSU MPI Allgather Latency Test v7.1
# Datatype: MPI_CHAR.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
1                      10.10              9.00             12.00        1000
2                      10.40              9.10             12.10        1000
4                      10.50              9.20             12.20        1000
8                      10.60              9.30             12.30        1000
16                     11.20              9.40             12.40        1000
"""
IMB = """\
#    Intel(R) MPI Benchmarks 2021.3, MPI-1 part
#----------------------------------------------------------------
# Benchmarking PingPong
# #processes = 2
#----------------------------------------------------------------
       #bytes #repetitions      t[usec]   Mbytes/sec
            0         1000         1.00         0.00
            1         1000         1.10         0.91
            2         1000         1.20         1.67
            4         1000         1.25         3.20
            8         1000         1.30         6.15
#----------------------------------------------------------------
# Benchmarking Alltoall
# #processes = 4
# ( 2 additional processes waiting in MPI_Barrier )
#----------------------------------------------------------------
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
            1         1000         3.00         5.00         4.00
            2         1000         3.50         5.50         4.50
            4         1000         3.60         5.75         4.60
            8         1000         3.90         6.10         4.90
           16          640         4.25         8.00         5.50
"""
ONECCL = """\
datatype: float32
# Benchmarking: reduce_scatter
# #processes: 4
        #bytes     #elem_count    #repetitions    t_min[usec]    t_max[usec]    t_avg[usec]   stddev[%]
          4096            1024              20          10.10          12.50          11.20        1.10
          8192            2048              20          11.00          13.00          12.25        1.00
         16384            4096              20          12.00          15.50          14.00        1.50
         32768            8192              20          18.00          22.00          20.00        2.00
         65536           16384              20          30.00          36.00          33.50        1.75
"""  # noqa: E501
ONECCL_CSV = """\
#ranks,collective,reduction,dtype,dtype_size,#elements/buffer,message_size,#buffers,#repetitions,t_min[usec],t_max[usec],t_avg[usec],stddev[%],wait_t_avg[usec]
4,allgatherv,,float32,4,1024,4096,1,20,10.1,12.5,11.2,1.1,0
4,allgatherv,,float32,4,2048,8192,1,20,11,13,12.25,1,0
4,allgatherv,,float32,4,4096,16384,1,20,12,15.5,14,1.5,0
4,allgatherv,,float32,4,8192,32768,1,20,18,22,20,2,0
4,allgatherv,,float32,4,16384,65536,1,20,30,36,33.5,1.75,0
"""
ONECCL_TIMES = ((4096, 11.2), (8192, 12.25), (16384, 14.0), (32768, 20.0), (65536, 33.5))
DEEPSPEED = """\
---- Performance of all_gather on 4 devices ---------------------------------------------------------
Size (Bytes)         Description               Duration             Throughput (Gbps)    BusBW (Gbps)
----------------------------------------------------------------------------------------------------
1.0 MB               524288x2                  100.000 us           335.544              251.658
"""  # noqa: E501
NCCOM = """\
nccom-test -r 2 allr
     size(B)    count(elems)     type    time(us)    algbw(GB/s)    busbw(GB/s)
    33554432        33554432    uint8         768          40.69          40.69
    67108864        67108864    uint8        1536          40.69          40.69
   134217728       134217728    uint8        3072          40.69          40.69
Avg bus bandwidth:      40.6901GB/s
"""
TORCH = """\
host:1:2 [1] NCCL INFO comm 0x1 rank 1 nranks 4 cudaDev 1 - Init COMPLETE
0 data size: 4.0 GB
1 data size: 4.0 GB
1:
0:
 duration: 0.5000 sec
 algo throughput: 128000000000.0000 bps, 128.0000 Gbps
 duration: 0.2500 sec
 busbw: 96.0000  Gbps
 algo throughput: 256000000000.0000 bps, 256.0000 Gbps
 busbw: 192.0000  Gbps
"""
EXTRAP = """\
PARAMETER p
PARAMETER size
POINTS (2 1024) (4 1024)
METRIC time
REGION allreduce
DATA 1e-05 1.2e-05
DATA 2e-05
"""
EXTRAP_JSON = (
    '{"parameters":["p","size"],"measurements":{"allreduce":{"time":'
    '[{"point":[4,1024],"values":[1e-5,1.2e-5]}]}}}'
)
NCCL_JSON = (
    '{"version":3,"args":["./build/all_reduce_perf","-b","8"],"nccl_version":23001,"config":'
    '{"nthreads":1,"ngpus":1,"devices":[{"rank":0,"hostname":"a"},{"rank":1,"hostname":"b"}]},'
    '"results":[{"size":1048576,"count":262144,"type":"float","redop":"sum","root":"-1",'
    '"out_of_place":{"time":100.000000,"alg_bw":10.485760,"bus_bw":10.485760,"nwrong":0.0},'
    '"in_place":{"time":50.000000,"alg_bw":20.971520,"bus_bw":20.971520,"nwrong":null}}]}'
)
MICROBENCHMARKS = (
    '[{"metadata":{"benchmark_name":"all_reduce","params":{"dtype":"bfloat16"},"device_info":{}},'
    '"metrics":{"avg_ms":0.1,"bandwidth_gb_s":36.70016,"shard_size_mb":2.097152},'
    '"raw_times_ms":[0.1,0.11,0.09]}]'
)
MAPPED = "num_gpus,bytes,time_us\n2,1024,10.5\n4,1024,12.5\n"
MAPPING = {
    "op": "all_reduce", "devices": "num_gpus", "size_bytes": "bytes", "time_s": "time_us:us",
}  # fmt: skip

SAMPLES = {
    "nccl-tests": (NCCL, {}, NCCL_ROWS),
    "nccl-tests, old": (
        OLD_ALL_TO_ALL,
        {"op": "all_to_all"},
        [("all_to_all", 4, 4 * n * 1048576, n * time)
         for n in (1, 2, 4) for time in (100e-6, 50e-6)],
    ),
    "nccl-tests, JSON": (
        NCCL_JSON, {}, [("all_reduce", 2, 1048576, 100e-6), ("all_reduce", 2, 1048576, 50e-6)],
    ),
    "OSU": (
        OSU,
        {"devices": 8},
        [("all_gather", 8, 8 * size, time * 1e-6)
         for size, time in ((1, 10.1), (2, 10.4), (4, 10.5), (8, 10.6), (16, 11.2))],
    ),
    "IMB": (
        IMB, {},
        [("send", 2, 0, 1e-6), ("send", 2, 1, 1.1e-6), ("send", 2, 2, 1.2e-6),
         ("send", 2, 4, 1.25e-6), ("send", 2, 8, 1.3e-6)]
        + [("all_to_all", 4, 16 * size, time * 1e-6)
           for size, time in ((1, 4.0), (2, 4.5), (4, 4.6), (8, 4.9), (16, 5.5))],
    ),
    "oneCCL": (
        ONECCL, {}, [("reduce_scatter", 4, 4 * size, time * 1e-6) for size, time in ONECCL_TIMES],
    ),
    "oneCCL, CSV": (
        ONECCL_CSV, {}, [("all_gather", 4, 4 * size, time * 1e-6) for size, time in ONECCL_TIMES],
    ),
    "DeepSpeed": (DEEPSPEED, {}, [("all_gather", 4, 4194304, 100e-6)]),
    "nccom-test": (
        NCCOM, {},
        [("all_reduce", 2, n * 33554432, n * 768e-6) for n in (1, 2, 4)],
    ),
    "torch": (TORCH, {}, [("all_reduce", 4, 4e9, 0.5), ("all_reduce", 4, 4e9, 0.25)]),
    "Extra-P": (
        EXTRAP, {},
        [("all_reduce", 2, 1024, 1e-5), ("all_reduce", 2, 1024, 1.2e-5),
         ("all_reduce", 4, 1024, 2e-5)],
    ),
    "Extra-P, JSON": (
        EXTRAP_JSON, {}, [("all_reduce", 4, 1024, 1e-5), ("all_reduce", 4, 1024, 1.2e-5)],
    ),
    "accelerator-microbenchmarks": (
        MICROBENCHMARKS, {},
        [("all_reduce", 8, 2097152, 1e-4), ("all_reduce", 8, 2097152, 1.1e-4),
         ("all_reduce", 8, 2097152, 0.9e-4)],
    ),
    "mapped CSV": (
        MAPPED, {"mapping": MAPPING},
        [("all_reduce", 2, 1024, 10.5e-6), ("all_reduce", 4, 1024, 12.5e-6)],
    ),
}  # fmt: skip
"""By format: the text, what it does not say, and its rows as (op, devices, size [B], time [s])."""
