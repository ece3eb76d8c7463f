"""What both GPU backends need of CUDA itself."""
