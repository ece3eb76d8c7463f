"""Device library in CUDA C that fused steps include.

``warpdrive.cuh`` includes the functions of the kernel language. ``sampler.cuh``, ``resetter.cuh``, ``episode_log.cuh``
and ``rollout_writer.cuh`` are the CUDA C versions of ``warpdrive.sampler``, ``resetter``, ``episode_log`` and
``fused_step.rollout_writer``. ``math.cuh``, ``random.cuh`` and ``polynomials.cuh`` are those of the modules of the same
names, and ``advantages.cuh`` is that of ``warpdrive.training.experience.advantages``.

``gpu.cuh`` maps agents to the threads of a GPU, and ``host/`` emulates threads on the host. ``author.cuh`` defines
``threadIdx``, ``blockIdx`` and ``__syncthreads`` for the author's functions. It also replaces ``sinf``, ``cosf`` and
``tanf`` by those of ``math.cuh``, because CUDA's use float64. ``nvrtc/`` has the headers of the C library that NVRTC
lacks.
"""
