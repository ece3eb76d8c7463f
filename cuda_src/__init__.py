"""Device library in CUDA C that fused steps include.

``warpdrive.cuh`` includes the functions of the kernel language. ``sampler.cuh``, ``resetter.cuh``, ``episode_log.cuh``
and ``rollout_writer.cuh`` are the CUDA C versions of ``warpdrive.sampler``, ``resetter``, ``episode_log`` and
``fused_step.rollout_writer``, ``math.cuh``, ``random.cuh`` and ``polynomials.cuh`` those of the modules with these
names, and ``advantages.cuh`` that of ``warpdrive.training.experience.advantages``. ``gpu.cuh`` defines the threads of a
GPU and ``host/`` those of the host; ``author.cuh`` defines ``threadIdx``, ``blockIdx`` and ``__syncthreads`` for
authors. ``nvrtc/`` has headers of the C library that NVRTC lacks. ``sinf``, ``cosf`` and ``tanf`` are those of
``math.cuh``, as those of CUDA contain float64.
"""
