"""CUDA driver access shared by the GPU backends."""
