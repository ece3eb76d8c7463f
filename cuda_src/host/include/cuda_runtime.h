// What authors may include of CUDA is known without it.

#pragma once
